"""Grids that ship with fencepost: `fencepost compare --grid NAME`. Each module defines `GRID` and `QUICK`."""
