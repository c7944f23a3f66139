"""What a user sees of a run: live progress, a summary in the terminal, and one self-contained page."""
