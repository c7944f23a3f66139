"""Scripted experiments, many at once: each of them as often as asked, on the workers of a campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from fencepost.errors import BrokenEnvironmentError
from harness.campaign.grid import Cell, Grid, Part, check
from harness.campaign.parallelism import Hands
from harness.campaign.study import Played, Study, make_study
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

    Returns how many runs of each experiment ended how (`held`, `failed`, `unknown`; `aborted`; `not made`), and why
    the first aborted one was. Raises FencepostError if they cannot begin."""
    place = report or REPORTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    study = Study(
        grid=scripts_grid(target, times, options),
        place=place,
        settle=partial(_ended, times),
        document=lambda *_: None,
        group_of=str,
        again=f"the same command with --report {place}",
    )
    played, ended = make_study(study, results, hands=hands, command=command, out=out)
    out.print(f"record: {place / 'runs.jsonl'}", soft_wrap=True)
    error = next((line.error for line in played.lines if line.error is not None), None)
    return ended, None if error is None else BrokenEnvironmentError(error)


def _ended(times: int, played: Played) -> dict[str, Counter[str]]:
    ended = {name: Counter[str]() for name in played.campaign.grid.cells}
    for line in played.lines:
        ended[line.cell]["aborted" if line.error is not None else line.outcome or "unknown"] += 1
    for counts in ended.values():
        counts.update({"not made": times - counts.total()})
    return {name: +counts for name, counts in ended.items()}


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
