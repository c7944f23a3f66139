"""Scripted experiments, many at once: each of them as often as asked, on the workers of a campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from fencepost.errors import BrokenEnvironmentError
from harness.campaign.folder import Campaign, CampaignFolder, finished_runs
from harness.campaign.grid import Cell, Grid, Part, check
from harness.campaign.hands import Hands
from harness.campaign.play import make_plan, play
from harness.run.prepare import remove_leftovers
from harness.scripts.experiment import find_experiments

REPORTS = Path("results/scripts")
"""Where the records are kept, one folder each, seen from the working directory."""


def play_side_by_side(
    target: str,
    times: int,
    options: Mapping[str, str],
    report: Path | None,
    results: Path,
    *,
    hands: Hands,
    command: str,
    out: Console,
) -> tuple[dict[str, Counter[str]], BrokenEnvironmentError | None]:
    """Play what `target` names, `times` each, with these options of `fencepost script`. What others disturbed is played
    again alone. The lines of the runs are kept in `report`, where the same runs go on after an interruption.

    Returns how many runs of each experiment ended how (`held`, `failed`, `unknown`; `broke off`; `not made`), and why
    the first of those that broke off did. Raises FencepostError if they cannot begin."""
    grid = scripts_grid(target, times, options)
    place = report or REPORTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    plan = make_plan(grid, yes=True, finished=finished_runs(place))
    campaign = Campaign.begun(grid, command)
    folder = CampaignFolder.claim(place, campaign)
    try:
        remove_leftovers(out)
        again = f"the same command with --report {folder.path}"
        play(plan, folder, results, campaign.revision, out, again, hands, group_of=str)
        lines = folder.lines()
        out.print(f"record: {folder.path / 'runs.jsonl'}", soft_wrap=True)
    finally:
        folder.close()
    ended = {name: Counter[str]() for name in grid.cells}
    for line in lines:
        ended[line.cell]["broke off" if line.error is not None else line.outcome or "unknown"] += 1
    for counts in ended.values():
        counts.update({"not made": times - counts.total()})
    error = next((line.error for line in lines if line.error is not None), None)
    broken = None if error is None else BrokenEnvironmentError(error)
    return {name: +counts for name, counts in ended.items()}, broken


def scripts_grid(target: str, times: int, options: Mapping[str, str]) -> Grid:
    """A cell for each experiment that `target` names. Raises UsageError."""
    path = target.partition(":")[0]
    cells = []
    for each in find_experiments(target):
        script = f"{path}:{each.play.__name__}" if path.endswith(".py") else each.name
        cells.append(Cell(each.name, {}, {"experiment": each.name}, script))
    return check(
        Grid(
            name="scripts",
            title="Scripted experiments",
            question="Does what an experiment expects hold every time?",
            parts=(Part(title="scripts", cells=tuple(cells), seeds=times, options=dict(options)),),
        )
    )
