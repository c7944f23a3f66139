"""`fencepost mutants` as a study: every mutant, each run until the mutant is found, and a table of what found it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console

from harness.campaign.document import DataTable
from harness.campaign.forms import at_terminal
from harness.campaign.study import Study
from harness.checkers.explained import explain
from harness.checkers.judge import judge_so_far
from harness.mutants import explained
from harness.mutants.grid import mutants_grid
from harness.mutants.page import document_of
from harness.mutants.table import Row, comparison, conclusion, in_words, rows_of
from harness.store.run_folder import RunFolder
from workloads.mutants import MUTANTS

REPORTS = Path("results/mutants")
"""Where the tables are kept, one folder each, seen from the working directory."""
_IS_NAMED: Final = f"{__name__}:is_named"
_BY_LOCK: Final = {mutant.lock: mutant for mutant in MUTANTS.values()}


def mutants_study(
    report: Path | None,
    *,
    seeds: int,
    first_seed: int,
    cluster: str,
    quick: bool,
    only: Sequence[str],
    faults: Sequence[str],
) -> Study[Sequence[Row]]:
    """Exit code 0: every mutant was found and named, no correct lock blamed; 1: otherwise; 2: not all runs are
    there."""
    place = report or REPORTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    return Study(
        grid=mutants_grid(seeds, first_seed, cluster, quick=quick, only=only, faults=faults),
        place=place,
        settle=lambda played: rows_of(played.lines),
        document=document_of,
        tell=tell,
        exit_code=lambda played, rows: 2 if not played.is_complete else int(not all(row.is_right for row in rows)),
        may_grow=True,
        ends_when=_IS_NAMED,
        again=f"the same command with --report {place}",
    )


def tell(rows: Sequence[Row], out: Console) -> None:
    shown = in_words(rows)
    shorter = [(row[0], *row[2:]) for row in (shown.heads, *shown.rows)]  # the wrong line is for the page
    out.print(at_terminal(DataTable([str(head) for head in shorter[0]], shorter[1:])))
    out.print(f"{conclusion(rows)} {comparison(rows)}".rstrip())
    if said := [(row.name, row.said) for row in rows if row.said]:
        out.print(at_terminal(DataTable(explained.HEADS, explained.cells(said))))
        out.print(f"fencepost explain: {explained.conclusion(said)}")


def is_named(run: RunFolder) -> bool:
    """Whether a run shows what it was made for; that of a correct lock never does."""
    mutant = _BY_LOCK.get(run.read_config().lock)
    if mutant is None:
        return False
    recorded, verdict = judge_so_far(run)
    kinds = {finding.kind for finding in verdict.findings if finding.blame == "lock"}
    if mutant.finding in kinds or not kinds & mutant.also.keys():
        return mutant.finding in kinds
    return any(
        mutant.is_named_by(one.finding.kind, one.clearest.cause)
        for one in explain(recorded, verdict)
        if one.finding.blame == "lock" and one.clearest
    )
