"""A control, broken on purpose: Redlock in which all clients use the same value, so that comparing it proves
nothing."""

from __future__ import annotations

from workloads.locks.redlock import Redlock


class NoUniqueValue(Redlock):
    """One client's release, or failed attempt, frees another client's lock."""

    def unique_value(self) -> str:
        return "locked"


LOCK = NoUniqueValue
