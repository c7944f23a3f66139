"""A schedule as the scenario of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import sleep

from cluster.lifetime import StateFolder
from harness.run import sandbox_child
from harness.run.interruption import Interruption
from harness.run.plan import ScheduledJob, Setup
from harness.run.player import Player
from harness.run.run import ActiveRun
from harness.run.sandbox_child import WayOut
from harness.run.snapshot import LOAD, Display
from harness.store.run_folder import RunFolder
from nemesis.schedule import Schedule

_HEAD_START_NS = 100_000_000
_TICK_MS = 20.0

HasShownEnough = Callable[[float], bool]
"""Whether the run has shown all that is wanted, so many ms after the start of the load. Asked at every tick."""


def make(
    setup: Setup,
    schedule: Schedule,
    folder: RunFolder,
    state: StateFolder,
    display: Display,
    has_shown_enough: HasShownEnough,
    interruption: Interruption | None = None,
) -> None:
    """Make the run in this process. Raises FencepostError if something outside of fencepost broke."""
    run = ActiveRun(setup, folder, state, display, interruption, head_start_ns=_HEAD_START_NS)
    run.perform(_Scheduled(schedule, folder, has_shown_enough))


def main_inside() -> None:
    """What the process in the sandbox does."""
    sandbox_child.main(ScheduledJob, _play)


def _play(job: ScheduledJob, out: WayOut) -> None:
    folder, state = RunFolder(job.folder), StateFolder(job.state)
    make(job.setup, job.schedule, folder, state, out, lambda _: out.has_shown_enough, out.interruption)


class _Scheduled:
    """Plays a schedule, and writes `played.json` if the schedule left some moments open."""

    def __init__(self, schedule: Schedule, folder: RunFolder, has_shown_enough: Callable[[float], bool]) -> None:
        self._schedule = schedule
        self._folder = folder
        self._has_shown_enough = has_shown_enough
        self._player: Player | None = None

    def play(self, run: ActiveRun) -> None:
        """Play what is due and show how it goes, until the time is over, enough was seen or the user asks to stop."""

        def is_over() -> bool:
            return run.elapsed_ms >= run.config.duration_ms or bool(run.interruption)

        world = replace(run.world, called_off=is_over)
        player = self._player = Player(self._schedule, world, run.observe)
        while not is_over():
            player.play(run.elapsed_ms)
            run.tick(LOAD, player.active)
            if self._has_shown_enough(run.elapsed_ms):
                return
            due_ms = player.next_ms()
            end_ms = run.config.duration_ms if due_ms is None else min(due_ms, run.config.duration_ms)
            sleep(max(0.0, min(_TICK_MS, end_ms - run.elapsed_ms)) / 1e3)

    def heal(self) -> None:
        if self._player is None:
            return
        try:
            self._player.heal_all()
        finally:
            if played := self._player.played():
                self._folder.write_played(played.to_bytes().decode())
