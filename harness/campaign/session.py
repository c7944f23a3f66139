"""`fencepost compare` as a study: the runs of a grid, and a report on what differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.campaign import export
from harness.campaign.aggregate import Summary, summaries
from harness.campaign.grid import Grid
from harness.campaign.page import render_page
from harness.campaign.study import Played, Study
from harness.config import REPORTS


def comparison(grid: Grid, report: Path | None, *, yes: bool) -> Study[Sequence[Summary]]:
    """Exit code 0: all runs are finished; 2: not."""
    return Study(
        grid=grid,
        place=report or REPORTS / grid.name,
        settle=lambda played: summaries(played.campaign.grid, played.lines),
        forms=forms,
        yes=yes,
    )


def forms(played: Played, found: Sequence[Summary]) -> dict[str, str | bytes]:
    campaign, lines = played.campaign, played.lines
    return {
        "index.html": render_page(campaign, lines, found, played.configs, played.moments),
        "report.md": export.markdown(campaign, lines, found, played.configs),
        "cells.csv": export.cells_frame(found).to_csv(index=False),
        "runs.csv": export.runs_frame(lines).to_csv(index=False),
        "report.json": export.document(campaign, lines, found),
    }
