"""How late the beats of a process were: what its timers, its threads and the machine let it do in time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.history import Beats
from workloads.recorder import Recorder

BEAT_S: Final = 0.05
"""Waking up costs most of it, so a shorter one would slow down the clients of a full machine."""
_IN_A_LINE: Final = 20
"""A process that is killed takes the line along that it had begun."""


class BeatLog:
    """Collects beats and writes a line (`fencepost.history.Beats`) about every second. For one thread.

    `waits_ns`: how long each thread of the process has waited for a processor so far, by any name; `stolen_ns`: the sum
    since whenever."""

    def __init__(self, log: Path) -> None:
        self._record = Recorder(log)
        self._from_ns = self._last_ns = 0
        self._after_us: list[int] = []
        self._before: tuple[Mapping[str, int], int] = ({}, 0)
        self._latest: tuple[Mapping[str, int], int] = ({}, 0)

    def begin(self, at_ns: int, waits_ns: Mapping[str, int], stolen_ns: int = 0) -> None:
        """The next beat is due from here."""
        self._from_ns = self._last_ns = at_ns
        self._before = self._latest = dict(waits_ns), stolen_ns

    def beat(self, at_ns: int, waits_ns: Mapping[str, int], stolen_ns: int = 0) -> None:
        """A beat came. Raises BrokenEnvironmentError when the disk is full."""
        self._after_us.append((at_ns - self._last_ns) // 1_000)
        self._last_ns, self._latest = at_ns, (waits_ns, stolen_ns)
        if len(self._after_us) == _IN_A_LINE:
            self._write()

    def close(self) -> None:
        if self._after_us:
            self._write()
        self._record.close()

    def _write(self) -> None:
        (waits_before, stolen_before), (waits_ns, stolen_ns) = self._before, self._latest
        waited = [max(0, wait - waits_before.get(thread, 0)) for thread, wait in waits_ns.items()]
        self._record(
            Beats(
                self._from_ns,
                tuple(self._after_us),
                waited_ns=sum(waited),
                stolen_ns=max(0, stolen_ns - stolen_before),
                every_us=round(BEAT_S * 1e6),
                longest_wait_ns=max(waited, default=0),
            )
        )
        self._after_us = []
        self._from_ns, self._before = self._last_ns, (dict(waits_ns), stolen_ns)
