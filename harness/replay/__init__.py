"""Making a recorded run again, and telling whether it shows the same violation."""
