"""What `fencepost compare` does: check, say what will be done, make the runs, write the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from fencepost.files import write_whole
from harness.campaign import export
from harness.campaign.aggregate import summaries
from harness.campaign.folder import Campaign, CampaignFolder, finished_runs
from harness.campaign.grid import Grid
from harness.campaign.hands import Hands
from harness.campaign.page import render_page
from harness.campaign.play import Plan, make_plan, play
from harness.config import REPORTS
from harness.run.prepare import remove_leftovers


def compare(
    grid: Grid, report: Path | None, results: Path, *, hands: Hands, yes: bool, command: str, out: Console
) -> int:
    """Make the runs of the grid that are not there yet, and write the report. 0: all of them are finished; 2: not.
    Raises FencepostError: the report is written then as well, if a run was made."""
    place = report or REPORTS / grid.name
    plan = make_plan(grid, yes=yes, finished=finished_runs(place))
    campaign = Campaign.begun(grid, command)
    folder = CampaignFolder.claim(place, campaign)
    try:
        if folder.campaign.revision != campaign.revision:
            out.print(
                f"this campaign began at revision {folder.campaign.revision or 'unknown'}, now it is "
                f"{campaign.revision or 'unknown'}; each run says which one made it"
            )
        remove_leftovers(out)
        try:
            finished = play(plan, folder, results, campaign.revision, out, hands=hands)
        finally:
            write_report(folder, plan)
        out.print(f"report: {folder.path / 'index.html'}", soft_wrap=True)
    finally:
        folder.close()
    return 0 if finished else 2


def write_report(folder: CampaignFolder, plan: Plan) -> Sequence[Path]:
    """Write every form of the report from the record; returns the files."""
    campaign, lines = folder.campaign, folder.lines()
    found = summaries(campaign.grid, lines)
    forms: dict[str, str | bytes] = {
        "index.html": render_page(campaign, lines, found, plan.configs, folder.timelines()),
        "report.md": export.markdown(campaign, lines, found, plan.configs),
        "cells.csv": export.cells_frame(found).to_csv(index=False),
        "runs.csv": export.runs_frame(lines).to_csv(index=False),
        "report.json": export.document(campaign, lines, found),
    }
    for name, content in forms.items():
        write_whole(folder.path / name, content)
    return [folder.path / name for name in forms]
