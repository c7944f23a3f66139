"""Grids that come along, each with `GRID` and `QUICK`; `fencepost compare --grid NAME`."""
