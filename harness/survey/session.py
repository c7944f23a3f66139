"""`fencepost survey` as a study: the runs of every library, and the rules that settle its promises."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from fencepost.errors import UsageError
from fencepost.text import listed
from harness.campaign.document import DataTable
from harness.campaign.folder import Campaign, read_campaign, read_run_lines
from harness.campaign.forms import at_terminal
from harness.campaign.study import Played, Study
from harness.survey import wording
from harness.survey.findings import FOLDER, Finding, read_findings
from harness.survey.grid import FAULT_NAMED, survey_grid
from harness.survey.page import document_of
from harness.survey.promises import PROMISES
from harness.survey.settle import SIGNS, Row, beside, rows_of
from harness.survey.subjects import SUBJECTS, Subject

REPORT: Final = Path("results/survey")
"""Where the page is kept, seen from the working directory; that of the quick form in a folder below."""
REPLAYS: Final = "replays"
"""The record of the replays of the findings, beside the page."""


def survey_study(
    report: Path | None, *, subjects: Sequence[Subject], seeds: int, cluster: str | None, quick: bool
) -> Study[Sequence[Row]]:
    """Its page also shows what an earlier call has played, and the findings beside it, or the published ones if there
    are none. A subject that this machine cannot play is left out. Exit code 0: all runs are there, and the controls
    came out as they must; 1: a control did not; 2: runs are missing."""
    place = report or (REPORT / "quick" if quick else REPORT)
    grid = survey_grid(subjects, seeds, cluster, quick=quick)
    known = place if (place / FOLDER).exists() else REPORT
    findings, folder = read_findings(known / FOLDER), Path(os.path.relpath(known / FOLDER, place))
    return Study(
        grid=grid,
        place=place,
        settle=partial(settle_all, findings, replayed_kinds(known)),
        document=partial(document_of, findings, folder=folder.as_posix()),
        tell=tell,
        exit_code=exit_code,
        leaves_out=True,
        may_grow=True,
        beside=(FOLDER, REPLAYS, "quick"),
        group_of=lambda cell: grid.at(cell)["subject"],
        check=_check_known,
    )


def exit_code(played: Played, rows: Sequence[Row]) -> int:
    if any(row.is_as_it_must_be is False for row in rows):
        return 1 if played.is_complete else 2
    return 0 if played.is_complete and not played.cannot else 2


def _check_known(campaign: Campaign) -> None:
    """Raise UsageError for a survey that another fencepost began, with faults or locks of which this one knows
    nothing: they cannot be judged by its rules."""
    known = {"fault": FAULT_NAMED.keys(), "subject": {subject.name for subject in SUBJECTS}}
    for _, cell in campaign.grid.cells.values():
        for axis, names in known.items():
            if cell.at[axis] not in names:
                raise UsageError(
                    f"the folder holds a survey of another fencepost, with the {axis} {cell.at[axis]!r}; name another "
                    "one with --report"
                )


def replayed_kinds(place: Path) -> dict[str, dict[str, str]]:
    """For which kinds of finding each lock was blamed in the replays of the findings, whose record is kept beside the
    survey's, and with which settings. Wrong clocks are in none of them."""
    settings: dict[str, dict[str, set[str]]] = {}
    record = place / REPLAYS
    if record.exists():
        grid = read_campaign(record).grid
        for line in read_run_lines(record):
            if line.error is None and line.figures is not None:
                at = grid.at(line.cell)
                for blamed in line.figures.blamed:
                    settings.setdefault(at["lock"], {}).setdefault(blamed.kind, set()).add(at["settings"])
    return {lock: {kind: listed(sorted(of)) for kind, of in kinds.items()} for lock, kinds in settings.items()}


def settle_all(findings: Sequence[Finding], replayed: Mapping[str, Mapping[str, str]], played: Played) -> list[Row]:
    """Every subject that the folder's grid has."""
    grid = played.campaign.grid
    there = {cell.at["subject"] for _, cell in grid.cells.values()}
    cannot = {grid.at(cell)["subject"]: str(error) for cell, error in played.cannot.items()}
    rows = rows_of([subject for subject in SUBJECTS if subject.name in there], grid, played.lines, cannot)
    return [beside(row, findings, replayed.get(row.subject.lock)) for row in rows]


def tell(rows: Sequence[Row], out: Console) -> None:
    heads = ("library", "runs", *(promise.name for promise in PROMISES))
    said = [
        (row.subject.name, str(row.runs), *(f"{SIGNS[s.answer]} {wording.note(s)}".rstrip() for s in row.settled))
        for row in rows
    ]
    out.print(at_terminal(DataTable(heads, said)))
    out.print(f"{wording.headline(rows)}.")
