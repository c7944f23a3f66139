"""A run's folder on disk: written line by line, read in columns."""
