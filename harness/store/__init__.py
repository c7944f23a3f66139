"""A run's folder on disk: written line by line, read as columns."""
