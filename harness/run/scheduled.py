"""A random run: the clients work by themselves while a schedule is played.

This is the command's side. What makes the run (`harness.run.scheduled_scenario`) takes a while to import, so it is
imported only where the run is made: in the sandbox, or here if there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from cluster.lifetime import StateFolder
from cluster.upstream import Upstream
from harness.run.plan import ScheduledJob, Setup
from harness.run.sandbox_parent import play_inside
from harness.run.snapshot import LOAD, Display, Snapshot
from harness.store.run_folder import RunFolder
from nemesis.schedule import Schedule

_SCENARIO = "harness.run.scheduled_scenario"
_LOOK_EVERY_MS, _LOOK_SHARE = 400.0, 0.25
"""How often it is asked whether the run has shown enough, and which share of the time that may take at most."""

Enough = Callable[[], bool]
"""Whether what was recorded so far is all that is wanted."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that was decided and checked before anything is started. `left_out`: the nemeses that a mix goes
    without, because the nodes' server cannot do what they need. `lent`: the servers of `--nodes-at`, with the
    passwords that only the command outside of the sandbox knows."""

    setup: Setup
    schedule: Schedule
    left_out: tuple[str, ...] = ()
    lent: tuple[Upstream, ...] = ()


def perform(
    prepared: Prepared, folder: RunFolder, state: StateFolder, display: Display, enough: Enough | None = None
) -> None:
    """Make the run, in a sandbox if there is one; `enough` ends its load early. Raises FencepostError if something
    outside of fencepost broke; the folder then holds what was recorded so far."""
    setup = prepared.setup
    sparing = Sparing(enough or (lambda: False))
    if setup.site.in_sandbox:
        job = ScheduledJob(setup=setup, schedule=prepared.schedule, folder=folder.path, state=state.path)
        play_inside(_SCENARIO, job, state, display, lambda _: None, sparing.at_snapshot)
    else:
        from harness.run.scheduled_scenario import make

        make(setup, prepared.schedule, folder, state, display, sparing.at)


class Sparing:
    """Asks periodically whether the run has shown enough, and spends little time on it.

    The record is always a moment behind: a fault that has just begun is not in it yet, and what it did looks like
    an unexplained failure. So the answer must be yes twice in a row.
    """

    def __init__(self, enough: Enough) -> None:
        self._enough = enough
        self._look_at_ms = _LOOK_EVERY_MS
        self._seen_before = False

    def at(self, elapsed_ms: float) -> bool:
        """Whether it has, so long after the start of the load."""
        if elapsed_ms < self._look_at_ms:
            return False
        began = monotonic()
        seen, before = self._enough(), self._seen_before
        self._seen_before = seen
        took_ms = (monotonic() - began) * 1e3
        self._look_at_ms = elapsed_ms + max(_LOOK_EVERY_MS, took_ms / _LOOK_SHARE)
        return seen and before

    def at_snapshot(self, now: Snapshot) -> bool:
        return now.phase == LOAD and self.at(now.elapsed_s * 1e3)
