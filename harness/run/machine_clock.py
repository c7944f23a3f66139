"""Notices when the machine's wall clock is set while a run is on.

Servers keep leases by this clock, so after a step keys live for another time than their lock asked for, and what a lock
does then says nothing about it. Faults set the clocks of single servers and clients (`cluster.wall_clock`), never the
machine's.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns
from typing import Final

from fencepost.errors import BrokenEnvironmentError
from fencepost.text import milliseconds

LEAST_STEP_NS: Final = 20_000_000
"""NTP slews the clock by less than this between two looks."""
_SURE_WITHIN_NS: Final = 5_000_000
"""The two clocks are read one after the other. A look that took longer says nothing."""


class MachineClock:
    """How far the wall clock is ahead of the monotonic one. `wall_ns` and `now_ns` read the two."""

    def __init__(self, wall_ns: Callable[[], int] = time_ns, now_ns: Callable[[], int] = monotonic_ns) -> None:
        self._wall_ns, self._now_ns = wall_ns, now_ns
        self._ahead_ns: int | None = None
        self.check()

    def check(self) -> None:
        """Raise BrokenEnvironmentError if the clock was set since the last look."""
        before_ns = self._now_ns()
        wall_ns = self._wall_ns()
        if self._now_ns() - before_ns > _SURE_WITHIN_NS:
            return
        step_ns = 0 if self._ahead_ns is None else wall_ns - before_ns - self._ahead_ns
        self._ahead_ns = wall_ns - before_ns
        if abs(step_ns) >= LEAST_STEP_NS:
            way = "forward" if step_ns > 0 else "back"
            raise BrokenEnvironmentError(
                f"the machine's clock was set {way} by {milliseconds(abs(step_ns) / 1e6)} while the run was on, and "
                "servers keep leases by it; make the run again"
            )
