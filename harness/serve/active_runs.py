"""Which runs are under way: their harness lives, and their record is not complete."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from cluster.lifetime import is_alive, state_parent
from harness.serve.index import JUDGED, UNREAD, RunSummary

UNDER_WAY: Final = "under way"
"""What stands in the place of a verdict."""
_BEGINS_WITHIN_S: Final = 10.0
"""How long after its folder a run's state exists."""


def is_under_way(run: Path) -> bool:
    """False too for a run that was aborted, and for one whose harness was killed."""
    if has_ended(run):
        return False
    return is_alive(state_parent() / run.name) or _has_just_begun(run)


def with_those_under_way(runs: Sequence[RunSummary], results: Path) -> Sequence[RunSummary]:
    """The same runs; the verdict of one that is under way is `UNDER_WAY`."""
    return [
        msgspec.structs.replace(run, verdict=UNDER_WAY)
        if run.verdict not in (*JUDGED, UNREAD) and is_under_way(results / run.name)
        else run
        for run in runs
    ]


def has_ended(run: Path) -> bool:
    """Whether nothing is recorded any more, because the run is over or was aborted."""
    return any((run / name).exists() for name in ("manifest.json", "failure.json"))


def _has_just_begun(run: Path) -> bool:
    try:
        return time.time() - (run / "config.json").stat().st_mtime < _BEGINS_WITHIN_S
    except OSError:
        return False
