"""Runs a candidate on real servers: a complete run like any other, but without a summary or page."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from fencepost.errors import FencepostError
from harness.checkers.judge import judge
from harness.replay.violation import Kind, moments_of
from harness.report.progress import Progress
from harness.run.plan import Setup
from harness.run.scheduled import Prepared
from harness.session import new_folder, record_run
from harness.shrink.trials import EnoughError, TrialOutcome
from harness.store.run_folder import RunFolder
from harness.store.tables import load_recorded
from nemesis.schedule import Schedule

_BREAKS_IN_A_ROW: Final = 3


@dataclass(slots=True)
class TrialPlayer:
    """`harness.shrink.trials.Play`: each play is a run with a folder in `scratch`. `heading`: the text above its
    progress. `best`: the best schedule so far."""

    setup: Setup
    kind: Kind
    scratch: Path
    heading: Callable[[Schedule, str], str]
    best: Callable[[], Schedule | None]
    interrupted: Callable[[], bool]
    out: Console
    showed: dict[bytes, RunFolder] = field(default_factory=dict)
    """The last run that showed the violation, by schedule: for the best schedule so far and for the current one."""

    def __call__(self, schedule: Schedule, told: str) -> TrialOutcome:
        """Make one run. An aborted run says nothing about the schedule and is repeated. Raises FencepostError
        after three in a row, and EnoughError if the user asked to stop."""
        screen = self.out if self.out.is_terminal else Console(quiet=True)  # in a log a line per attempt is enough
        broke = 0
        while True:
            if self.interrupted():
                raise EnoughError("interrupted")
            folder = new_folder(self._prepared(schedule), self.scratch)
            try:
                with Progress(screen, heading=self.heading(schedule, told)) as progress:
                    record_run(self._prepared(schedule), folder, progress)
                return self._judged(schedule, folder)
            except FencepostError as error:
                broke += 1
                if broke == _BREAKS_IN_A_ROW:
                    self.out.print(f"this run was aborted, too: {error}")
                    raise
                self.out.print(f"this run was aborted and is repeated: {error}")
            finally:
                self._delete_unless_kept(folder)

    def _prepared(self, schedule: Schedule) -> Prepared:
        config = msgspec.structs.replace(self.setup.config, duration_ms=schedule.duration_ms)
        return Prepared(replace(self.setup, config=config), schedule)

    def _judged(self, schedule: Schedule, folder: RunFolder) -> TrialOutcome:
        run = load_recorded(folder)
        if run.timeline.interrupted:
            raise EnoughError("interrupted")
        finding = self.kind.among(judge(run, [self.kind.checker]))
        if finding is None:
            return TrialOutcome(False)
        best = self.best()
        before, kept = self.showed, {best.to_bytes()} if best else set()
        self.showed = {key: old for key, old in before.items() if key in kept} | {schedule.to_bytes(): folder}
        for old in before.values():
            self._delete_unless_kept(old)
        return TrialOutcome(True, moments_of(run, finding)[:1])

    def _delete_unless_kept(self, folder: RunFolder) -> None:
        if folder not in self.showed.values():
            with suppress(FileNotFoundError):
                shutil.rmtree(folder.path)
