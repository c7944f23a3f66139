"""A random run: the clients work by themselves while a schedule is played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep

from cluster.lifetime import RunState
from harness.agenda import Agenda
from harness.bench import Bench, Stand
from harness.report.progress import Progress
from harness.store import RunFolder
from nemesis.schedule import Schedule

_HEAD_START_NS = 100_000_000
_TICK_MS = 20.0
_LOOK_EVERY_MS, _LOOK_SHARE = 400.0, 0.1
"""How often it is asked whether the run has shown enough, and which share of the time that may take at most."""

Enough = Callable[[], bool]
"""Whether what was recorded so far is all that is wanted."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that was decided and checked before anything is started."""

    stand: Stand
    schedule: Schedule


def perform(
    prepared: Prepared, folder: RunFolder, state: RunState, progress: Progress, enough: Enough | None = None
) -> None:
    """Make the run; `enough` ends its load early. Raises FencepostError if the surroundings broke; the folder then
    holds what was recorded so far."""
    bench = Bench(prepared.stand, folder, state, progress, head_start_ns=_HEAD_START_NS)
    bench.perform(_Scheduled(prepared.schedule, folder, enough))


class _Scheduled:
    """The act that plays a schedule, and leaves `played.json` where that was not all known beforehand."""

    def __init__(self, schedule: Schedule, folder: RunFolder, enough: Enough | None) -> None:
        self._schedule = schedule
        self._folder = folder
        self._enough = enough
        self._look_at_ms = _LOOK_EVERY_MS
        self._agenda: Agenda | None = None

    def play(self, bench: Bench) -> None:
        """Play what is due and show how it goes, until the time is over, enough was seen or the user asks to stop."""
        agenda = self._agenda = Agenda(self._schedule, bench.world, bench.observe)
        while (now_ms := bench.elapsed_ms) < bench.config.duration_ms and not bench.interruption:
            agenda.play(now_ms)
            bench.tick("load", agenda.active)
            if self._has_seen_enough(bench):
                return
            due_ms = agenda.next_ms()
            end_ms = bench.config.duration_ms if due_ms is None else min(due_ms, bench.config.duration_ms)
            sleep(max(0.0, min(_TICK_MS, end_ms - bench.elapsed_ms)) / 1e3)

    def _has_seen_enough(self, bench: Bench) -> bool:
        if self._enough is None or bench.elapsed_ms < self._look_at_ms:
            return False
        began = monotonic()
        seen = self._enough()
        took_ms = (monotonic() - began) * 1e3
        self._look_at_ms = bench.elapsed_ms + max(_LOOK_EVERY_MS, took_ms / _LOOK_SHARE)
        return seen

    def heal(self) -> None:
        if self._agenda is None:
            return
        try:
            self._agenda.heal_all()
        finally:
            if played := self._agenda.played():
                self._folder.write_played(played.to_bytes().decode())
