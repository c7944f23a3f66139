"""SET NX PX on the first node only, with a value that is cheaper than a random one.

A refused attempt leaves the key alone, so that a release is all that these locks can do wrong.
"""

from __future__ import annotations

from workloads.locks.set_nx_px import SetNxPx


class FixedValue(SetNxPx):
    """The release compares a value that all clients share."""

    def unique_value(self) -> str:
        return "locked"

    def undo(self, key: str, value: str) -> None:
        pass
