"""Shrinking a schedule: the fewest and shortest faults that still show the same kind of violation."""
