"""What `fencepost mutants` does: play every mutant until it is found, show the table, write it down."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from fencepost.files import write_whole
from harness.campaign.folder import Campaign, CampaignFolder, finished_runs
from harness.campaign.hands import Hands
from harness.campaign.play import make_plan, play
from harness.checkers.judge import judge_so_far
from harness.explain.explanation import explain
from harness.mutants import explained
from harness.mutants.grid import mutants_grid
from harness.mutants.table import Row, comparison, conclusion, document, in_words, markdown, rows_of
from harness.run.prepare import remove_leftovers
from harness.store.run_folder import RunFolder
from workloads.mutants import MUTANTS

REPORTS = Path("results/mutants")
"""Where the tables are kept, one folder each, seen from the working directory."""
_IS_NAMED: Final = f"{__name__}:is_named"
_BY_LOCK: Final = {mutant.lock: mutant for mutant in MUTANTS.values()}


def prove(
    report: Path | None,
    results: Path,
    *,
    seeds: int,
    first_seed: int,
    cluster: str,
    quick: bool,
    only: Sequence[str],
    faults: Sequence[str],
    hands: Hands,
    command: str,
    out: Console,
) -> int:
    """Make the runs and write `table.md` and `table.json`. 0: every mutant was found and named, no correct lock blamed;
    1: not so; 2: not all runs are finished. Raises FencepostError; the table is written then as well."""
    grid = mutants_grid(seeds, first_seed, cluster, quick=quick, only=only, faults=faults)
    place = report or REPORTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    plan = make_plan(grid, yes=True, finished=finished_runs(place))
    campaign = Campaign.begun(grid, command)
    folder = CampaignFolder.claim(place, campaign, may_grow=True)
    try:
        remove_leftovers(out)
        try:
            again = f"the same command with --report {folder.path}"
            finished = play(plan, folder, results, campaign.revision, out, again, hands, _IS_NAMED)
        finally:
            lines = folder.lines()
            write_whole(folder.path / "table.md", markdown(folder.campaign, lines))
            write_whole(folder.path / "table.json", document(folder.campaign, lines))
        rows = rows_of(lines)
        out.print(render(rows))
        out.print(f"{conclusion(rows)} {comparison(rows)}".rstrip())
        if said := [(row.name, row.said) for row in rows if row.said]:
            out.print(render_said(said))
            out.print(f"fencepost explain: {explained.conclusion(said)}")
        out.print(f"table: {folder.path / 'table.md'}", soft_wrap=True)
    finally:
        folder.close()
    if not all(row.is_right for row in rows):
        return 1 if finished else 2
    return 0 if finished else 2


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
