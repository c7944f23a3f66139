"""`fencepost compare` as a study: the runs of a grid, and a report on what differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.campaign.aggregate import Summary, summaries
from harness.campaign.grid import Grid
from harness.campaign.page import document_of
from harness.campaign.study import Study
from harness.config import REPORTS


def comparison(grid: Grid, report: Path | None, *, yes: bool) -> Study[Sequence[Summary]]:
    """Exit code 0: all runs are finished; 2: not."""
    return Study(
        grid=grid,
        place=report or REPORTS / grid.name,
        settle=lambda played: summaries(played.campaign.grid, played.lines),
        document=document_of,
        yes=yes,
    )
