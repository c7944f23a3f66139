"""A small world in virtual time, in which the real locks, workloads, faults and judge are played in seconds."""
