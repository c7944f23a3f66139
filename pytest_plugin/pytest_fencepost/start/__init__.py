"""Started as a program, by its folder."""
