"""One run, from bring-up to tear-down: clients, faults, and the record of both."""
