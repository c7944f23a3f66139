"""The shipped experiments, one file an idea; `fencepost script --list` shows them all."""
