"""Makes a recorded run again, and tells whether it shows the same violation."""
