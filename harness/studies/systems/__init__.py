"""What people guard with a lock on: one Redis, five, a database, a consensus system, under the same faults."""
