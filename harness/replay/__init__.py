"""Repeats a recorded run, and reports whether it shows the same violation."""
