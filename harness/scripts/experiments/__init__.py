"""The shipped experiments, one idea per file; `fencepost script --list` shows them all."""
