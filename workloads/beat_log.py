"""How late the beats of a process were: what its timers, its threads and the machine let it do in time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fencepost.history import Beats
from workloads.recorder import Recorder

BEAT_S: Final = 0.05
"""Waking up costs most of it, so a shorter one would slow down the clients of a full machine."""
_IN_A_LINE: Final = 20
"""A process that is killed takes the line along that it had begun."""


class BeatLog:
    """Collects beats and writes a line (`fencepost.history.Beats`) about every second. For one thread."""

    def __init__(self, log: Path) -> None:
        self._record = Recorder(log)
        self._from_ns = self._last_ns = 0
        self._after_us: list[int] = []
        self._waited_ns = self._stolen_ns = 0
        self._sums = (0, 0)

    def begin(self, at_ns: int, waited_ns: int, stolen_ns: int = 0) -> None:
        """The next beat is due from here. `waited_ns`, `stolen_ns`: sums since whenever."""
        self._from_ns = self._last_ns = at_ns
        self._sums = waited_ns, stolen_ns
        self._waited_ns, self._stolen_ns = self._sums

    def beat(self, at_ns: int, waited_ns: int, stolen_ns: int = 0) -> None:
        """A beat came. Raises BrokenEnvironmentError when the disk is full."""
        self._after_us.append((at_ns - self._last_ns) // 1_000)
        self._last_ns, self._sums = at_ns, (waited_ns, stolen_ns)
        if len(self._after_us) == _IN_A_LINE:
            self._write()

    def close(self) -> None:
        if self._after_us:
            self._write()
        self._record.close()

    def _write(self) -> None:
        waited_ns, stolen_ns = self._sums
        waited, stolen = max(0, waited_ns - self._waited_ns), max(0, stolen_ns - self._stolen_ns)
        self._record(Beats(self._from_ns, tuple(self._after_us), waited, stolen, every_us=round(BEAT_S * 1e6)))
        self._after_us = []
        self._from_ns, self._waited_ns, self._stolen_ns = self._last_ns, waited_ns, stolen_ns
