"""Is the judge any good? Locks that are broken on purpose, and which faults find out which of them, how soon."""
