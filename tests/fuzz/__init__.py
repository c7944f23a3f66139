"""Whatever comes in from outside, what comes out is a documented exit code and printable lines.

In the gate every test takes a few examples, always the same. `FENCEPOST_FUZZ=40` makes it forty times as many, drawn
anew each time; the nightly job does that.
"""
