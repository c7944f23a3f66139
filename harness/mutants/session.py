"""`fencepost mutants` as a study: every mutant, each run until the mutant is found, and a table of what found it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from harness.campaign.study import Study
from harness.checkers.explained import explain
from harness.checkers.judge import judge_so_far
from harness.mutants import explained
from harness.mutants.grid import mutants_grid
from harness.mutants.table import Row, comparison, conclusion, document, in_words, markdown, rows_of
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
) -> Study[list[Row]]:
    """Exit code 0: every mutant was found and named, no correct lock blamed; 1: not so; 2: not all runs are there."""
    place = report or REPORTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    return Study(
        grid=mutants_grid(seeds, first_seed, cluster, quick=quick, only=only, faults=faults),
        place=place,
        settle=lambda played: rows_of(played.lines),
        forms=lambda played, _: {
            "table.md": markdown(played.campaign, played.lines),
            "table.json": document(played.campaign, played.lines),
        },
        tell=tell,
        exit_code=lambda played, rows: 2 if not played.is_complete else int(not all(row.is_right for row in rows)),
        may_grow=True,
        ends_when=_IS_NAMED,
        again=f"the same command with --report {place}",
    )


def tell(rows: list[Row], out: Console) -> None:
    out.print(render(rows))
    out.print(f"{conclusion(rows)} {comparison(rows)}".rstrip())
    if said := [(row.name, row.said) for row in rows if row.said]:
        out.print(render_said(said))
        out.print(f"fencepost explain: {explained.conclusion(said)}")


def render(rows: list[Row]) -> Table:
    """The table for a terminal."""
    cells = in_words(rows)
    table = Table(box=None, pad_edge=False)
    for name in cells.head:
        if name != "wrong line":
            table.add_column(name, overflow="fold")
    for row in cells.rows:
        table.add_row(row[0], *row[2:])
    return table


def render_said(rows: list[tuple[str, explained.Said]]) -> Table:
    """What `fencepost explain` should say of each mutant, and what it says in how many runs."""
    table = Table(box=None, pad_edge=False)
    for name in ("mutant", "explain should say", "it says: runs"):
        table.add_column(name, overflow="fold")
    for row in explained.cells(rows):
        table.add_row(*row)
    return table


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
