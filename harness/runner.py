"""A random run: the clients work by themselves while a schedule is played."""

from __future__ import annotations

from dataclasses import dataclass
from time import sleep

from cluster.lifetime import RunState
from harness.agenda import Agenda
from harness.bench import Bench, Stand
from harness.report.progress import Progress
from harness.store import RunFolder
from nemesis.schedule import Schedule

_HEAD_START_NS = 100_000_000
_TICK_MS = 20.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that was decided and checked before anything is started."""

    stand: Stand
    schedule: Schedule


def perform(prepared: Prepared, folder: RunFolder, state: RunState, progress: Progress) -> None:
    """Make the run. Raises FencepostError if the surroundings broke; the folder then holds what was recorded so far."""
    bench = Bench(prepared.stand, folder, state, progress, head_start_ns=_HEAD_START_NS)
    bench.perform(_Scheduled(prepared.schedule, folder))


class _Scheduled:
    """The act that plays a schedule, and leaves `played.json` where that was not all known beforehand."""

    def __init__(self, schedule: Schedule, folder: RunFolder) -> None:
        self._schedule = schedule
        self._folder = folder
        self._agenda: Agenda | None = None

    def play(self, bench: Bench) -> None:
        """Play what is due and show how it goes, until the time is over or the user asks to stop."""
        agenda = self._agenda = Agenda(self._schedule, bench.world, bench.observe)
        while (now_ms := bench.elapsed_ms) < bench.config.duration_ms and not bench.interruption:
            agenda.play(now_ms)
            bench.tick("load", agenda.active)
            due_ms = agenda.next_ms()
            end_ms = bench.config.duration_ms if due_ms is None else min(due_ms, bench.config.duration_ms)
            sleep(max(0.0, min(_TICK_MS, end_ms - bench.elapsed_ms)) / 1e3)

    def heal(self) -> None:
        if self._agenda is None:
            return
        try:
            self._agenda.heal_all()
        finally:
            if played := self._agenda.played():
                self._folder.write_played(played.to_bytes().decode())
