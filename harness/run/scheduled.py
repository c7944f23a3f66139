"""A random run: the clients work by themselves while a schedule is played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep

from cluster.lifetime import RunState
from harness.run.player import Player
from harness.run.snapshot import Display
from harness.run.test_run import Setup, TestRun
from harness.store.run_folder import RunFolder
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

    setup: Setup
    schedule: Schedule


def perform(
    prepared: Prepared, folder: RunFolder, state: RunState, display: Display, enough: Enough | None = None
) -> None:
    """Make the run; `enough` ends its load early. Raises FencepostError if the surroundings broke; the folder then
    holds what was recorded so far."""
    test_run = TestRun(prepared.setup, folder, state, display, head_start_ns=_HEAD_START_NS)
    test_run.perform(_Scheduled(prepared.schedule, folder, enough))


class _Scheduled:
    """The act that plays a schedule, and leaves `played.json` where that was not all known beforehand."""

    def __init__(self, schedule: Schedule, folder: RunFolder, enough: Enough | None) -> None:
        self._schedule = schedule
        self._folder = folder
        self._enough = enough
        self._look_at_ms = _LOOK_EVERY_MS
        self._player: Player | None = None

    def play(self, test_run: TestRun) -> None:
        """Play what is due and show how it goes, until the time is over, enough was seen or the user asks to stop."""
        player = self._player = Player(self._schedule, test_run.world, test_run.observe)
        while (now_ms := test_run.elapsed_ms) < test_run.config.duration_ms and not test_run.interruption:
            player.play(now_ms)
            test_run.tick("load", player.active)
            if self._has_seen_enough(test_run):
                return
            due_ms = player.next_ms()
            end_ms = test_run.config.duration_ms if due_ms is None else min(due_ms, test_run.config.duration_ms)
            sleep(max(0.0, min(_TICK_MS, end_ms - test_run.elapsed_ms)) / 1e3)

    def _has_seen_enough(self, test_run: TestRun) -> bool:
        if self._enough is None or test_run.elapsed_ms < self._look_at_ms:
            return False
        began = monotonic()
        seen = self._enough()
        took_ms = (monotonic() - began) * 1e3
        self._look_at_ms = test_run.elapsed_ms + max(_LOOK_EVERY_MS, took_ms / _LOOK_SHARE)
        return seen

    def heal(self) -> None:
        if self._player is None:
            return
        try:
            self._player.heal_all()
        finally:
            if played := self._player.played():
                self._folder.write_played(played.to_bytes().decode())
