"""What `fencepost survey` does: play what is missing, settle every promise by rule, write the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from fencepost.errors import UsageError
from fencepost.files import write_whole
from harness.campaign.folder import Campaign, CampaignFolder, finished_runs
from harness.campaign.hands import Hands
from harness.campaign.order import in_order
from harness.campaign.play import play
from harness.run.prepare import remove_leftovers
from harness.survey import export, wording
from harness.survey.findings import FOLDER, Finding, read_findings
from harness.survey.grid import FAULT_NAMED, playable, survey_grid
from harness.survey.page import render_page
from harness.survey.promises import PROMISES
from harness.survey.settle import Row, beside, rows_of
from harness.survey.subjects import SUBJECTS, Subject

REPORT: Final = Path("results/survey")
"""Where the page is kept, seen from the working directory; that of the quick form in a folder below."""


def run_survey(
    report: Path | None,
    results: Path,
    *,
    subjects: Sequence[Subject],
    seeds: int,
    quick: bool,
    cluster: str | None,
    hands: Hands,
    command: str,
    install: Callable[[Sequence[Subject]], object],
    out: Console,
) -> int:
    """Make the runs that are not there yet and write the page, which also shows what an earlier call has played.
    `install` is called with the subjects that have runs to be made, before these are checked. 0: all
    runs are there, and the controls came out as they must; 1: a control did not; 2: runs are missing. A subject that
    this machine cannot play is said, and left out. Raises FencepostError if it can play none; later, after the page was
    written."""
    place = report or (REPORT / "quick" if quick else REPORT)
    asked = survey_grid(subjects, seeds, cluster, quick=quick)

    def subject_of(cell: str) -> str:
        return asked.at(cell)["subject"]

    findings = read_findings(place / FOLDER)
    finished = finished_runs(place)
    missing = {subject_of(slot.cell) for slot in in_order(asked) if slot not in finished}
    install([subject for subject in subjects if subject.name in missing])
    plan, errors = playable(asked, finished)
    if plan is None:
        raise next(iter(errors.values()))
    cannot = {subject_of(cell): str(error) for cell, error in errors.items()}
    for name, why in cannot.items():
        out.print(f"{name} is left out, or a part of it: {why}", soft_wrap=True)
    campaign = Campaign.begun(asked, command)
    folder = CampaignFolder.claim(place, campaign, may_grow=True, beside=(FOLDER, "quick"))
    try:
        _check_known(folder)
        remove_leftovers(out)
        try:
            is_complete = play(plan, folder, results, campaign.revision, out, hands=hands, group_of=subject_of)
        finally:
            rows = settle_all(folder, cannot, findings)
            write_page(folder, rows, findings)
        out.print(render(rows))
        out.print(f"{wording.headline(rows)}.")
        out.print(f"page: {folder.path / 'index.html'}", soft_wrap=True)
    finally:
        folder.close()
    if any(row.is_as_it_must_be is False for row in rows):
        return 1 if is_complete else 2
    return 0 if is_complete and not errors else 2


def _check_known(folder: CampaignFolder) -> None:
    """Raise UsageError for a survey that another fencepost began, with faults or locks of which this one knows
    nothing: they cannot be judged by its rules."""
    known = {"fault": FAULT_NAMED.keys(), "subject": {subject.name for subject in SUBJECTS}}
    for _, cell in folder.campaign.grid.cells.values():
        for axis, names in known.items():
            if cell.at[axis] not in names:
                raise UsageError(
                    f"{folder.path} holds a survey of another fencepost, with the {axis} {cell.at[axis]!r}; name "
                    "another folder with --report"
                )


def settle_all(folder: CampaignFolder, cannot: Mapping[str, str], findings: Sequence[Finding]) -> list[Row]:
    """Every subject that the folder's grid has."""
    grid = folder.campaign.grid
    there = {cell.at["subject"] for _, cell in grid.cells.values()}
    rows = rows_of([subject for subject in SUBJECTS if subject.name in there], grid, folder.lines(), cannot)
    return [beside(row, findings) for row in rows]


def write_page(folder: CampaignFolder, rows: Sequence[Row], findings: Sequence[Finding]) -> None:
    """Write every form of the page from the record."""
    forms: dict[str, str | bytes] = {
        "index.html": render_page(folder.campaign, rows, folder.all_timelines(), findings),
        "survey.md": export.markdown(folder.campaign, rows, findings),
        "survey.csv": export.frame(rows).to_csv(index=False),
        "survey.json": export.document(folder.campaign, rows),
    }
    for name, content in forms.items():
        write_whole(folder.path / name, content)


def render(rows: Sequence[Row]) -> Table:
    """The table for a terminal."""
    table = Table(box=None, pad_edge=False)
    for head in ("library", "runs", *(promise.name for promise in PROMISES)):
        table.add_column(head, no_wrap=head == "library", overflow="fold")
    for row in rows:
        cells = (" ".join(filter(None, (wording.sign(each), wording.note(each)))) for each in row.settled)
        table.add_row(row.subject.name, str(row.runs), *cells)
    return table
