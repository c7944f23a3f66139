"""From the lines of the runs to a table of cells, and to the comparisons between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Final, Literal

import numpy as np

from harness.campaign.adding import add_up, hits_of
from harness.campaign.folder import RunLine
from harness.campaign.grid import Cell, Grid, Part
from harness.campaign.measure import BLAMES, Figures
from harness.campaign.statistics import Count, Difference, Rate, difference, holm, paired, rate_of

Unit = Literal["opportunity", "node outage", "run"]
UNITS: Final[dict[Unit, str]] = {"opportunity": "opportunities", "node outage": "node outages", "run": "runs"}
FIGURES: Final[dict[Unit, str]] = {"opportunity": "opportunities", "node outage": "node_outages"}
"""The figure that counts each unit but the run."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One cell over all of its seeds.

    `total`: the figures of all of its runs together. `verdicts`: runs by verdict. `violated`: runs with an overlap by
    blame, of all judged runs. `counts`: how often an overlap blamed on the lock followed, of each unit and by seed;
    `per_unit`: the rates. A run whose verdict is unknown counts in neither. `by_seed`: acquisitions a second.
    `disturbed`: why, of each run that was too disturbed.
    """

    part: Part
    cell: Cell
    total: Figures
    folders: tuple[str, ...]
    broke_off: tuple[str, ...]
    verdicts: dict[str, int]
    violated: dict[str, Rate]
    counts: dict[Unit, dict[int, Count]]
    per_unit: dict[Unit, Rate]
    by_seed: dict[int, float]
    disturbed: tuple[tuple[str, ...], ...]

    @property
    def main_rate(self) -> tuple[Unit, Rate]:
        """The rate of the finest unit that was counted: an opportunity, else a node outage, else a run."""
        unit: Unit = next((u for u in UNITS if u in self.per_unit and self.per_unit[u].trials), "run")
        return unit, self.per_unit[unit]

    @property
    def per_second(self) -> float | None:
        """Acquisitions, over all runs together."""
        return speed_of(self.total)


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two cells that differ in one place, or that the grid wants compared.

    `difference`: of the rate of violations a `unit`, second minus first, with the p of a permutation test of the runs.
    `p_paired`: of a sign-flip test over the seeds that both have. `p_holm`, `p_paired_holm`: the same, adjusted for all
    tests of the part, of either kind. `speed`: how many times the first one's acquisitions a second the second one
    makes, seed by seed: the geometric mean, the lowest and the highest.
    """

    part: Part
    first: Cell
    second: Cell
    axis: str
    unit: Unit
    difference: Difference | None
    p_holm: float | None
    p_paired: float | None
    p_paired_holm: float | None
    speed: tuple[float, float, float] | None


def speed_of(figures: Figures) -> float | None:
    """Acquisitions a second."""
    return figures.grants / figures.load_s if figures.load_s else None


def summaries(grid: Grid, lines: Sequence[RunLine]) -> list[Summary]:
    """One for each cell of the grid, in its order; also for a cell that has no run yet."""
    by_cell: dict[str, list[RunLine]] = {}
    for line in lines:
        by_cell.setdefault(line.cell, []).append(line)
    return [_summary(part, cell, by_cell.get(cell.name, [])) for part, cell in grid.cells.values()]


def contrasts(part: Part, found: Iterable[Summary]) -> list[Contrast]:
    """Along each axis every value against the baseline, all else equal; then the pairs that the grid names."""
    by_name = {summary.cell.name: summary for summary in found}
    chosen: list[tuple[str, Cell, Cell]] = []
    for axis, values in part.axes.items():
        baseline = part.baseline.get(axis, values[0])
        for a, b in combinations(part.cells, 2):
            differing = {name for name, value in a.at.items() if value != b.at.get(name)}
            if differing == {axis} and a.at.keys() == b.at.keys() and baseline in (a.at[axis], b.at[axis]):
                chosen.append((axis, a, b) if a.at[axis] == baseline else (axis, b, a))
    cells = {cell.name: cell for cell in part.cells}
    chosen += [("", cells[a], cells[b]) for a, b in part.pairs]
    return _adjusted([_contrast(part, axis, by_name[a.name], by_name[b.name]) for axis, a, b in chosen])


def pooled(found: Sequence[Summary]) -> tuple[Unit, Rate]:
    """The rate of all these cells together, in the finest unit that was counted in every one of them that has a run."""
    run = [summary.counts for summary in found if summary.verdicts]
    for unit in UNITS:
        if all(unit in counts for counts in run):
            together = rate_of(chain.from_iterable(counts[unit].values() for counts in run))
            if together.trials:
                return unit, together
    return "run", rate_of(())


def _summary(part: Part, cell: Cell, lines: list[RunLine]) -> Summary:
    done = [(line, line.figures) for line in lines if line.error is None and line.figures is not None]
    figures = [f for _, f in done]
    judged = {line.seed: f for line, f in done if line.verdict != "unknown"}
    counts = _counts(judged)
    return Summary(
        part=part,
        cell=cell,
        total=add_up(Figures, figures),
        folders=tuple(line.folder for line, _ in done),
        broke_off=tuple(line.folder for line in lines if line.error is not None),
        verdicts=dict(Counter(line.verdict for line, _ in done)),
        violated={blame: rate_of(_by_run(judged, blame).values()) for blame in BLAMES},
        counts=counts,
        per_unit={unit: rate_of(by_seed.values()) for unit, by_seed in counts.items()},
        by_seed={line.seed: speed for line, f in done if (speed := speed_of(f)) is not None},
        disturbed=tuple(f.disturbed for f in figures if f.disturbed),
    )


def _counts(judged: dict[int, Figures]) -> dict[Unit, dict[int, Count]]:
    """How often an overlap blamed on the lock followed, by seed, of each unit that was counted in every run."""
    found: dict[Unit, dict[int, Count]] = {"run": _by_run(judged, "lock")}
    for unit, name in FIGURES.items():
        counts = {seed: hits_of(f, name) for seed, f in judged.items()}
        known = {seed: count for seed, count in counts.items() if count is not None}
        if known == counts:
            found[unit] = known
    return found


def _by_run(judged: dict[int, Figures], blame: str) -> dict[int, Count]:
    return {seed: (int(f.overlaps.get(blame, 0) > 0), 1) for seed, f in judged.items()}


def _contrast(part: Part, axis: str, first: Summary, second: Summary) -> Contrast:
    both: list[Unit] = [u for u in UNITS if all(s.per_unit[u].trials for s in (first, second) if u in s.per_unit)]
    unit: Unit = next((u for u in both if u in first.per_unit and u in second.per_unit), "run")
    a, b = first.counts[unit], second.counts[unit]
    seeds = sorted(a.keys() & b.keys())
    safety = part.kind == "safety"
    return Contrast(
        part=part,
        first=first.cell,
        second=second.cell,
        axis=axis,
        unit=unit,
        difference=difference(list(a.values()), list(b.values())) if safety else None,
        p_holm=None,
        p_paired=paired((a[seed], b[seed]) for seed in seeds) if safety and seeds else None,
        p_paired_holm=None,
        speed=ratio_of_speeds(first.by_seed, second.by_seed),
    )


def _adjusted(compared: Sequence[Contrast]) -> list[Contrast]:
    """The same, with each p adjusted for all of them."""
    tests = {(place, "dealt"): c.difference.p for place, c in enumerate(compared) if c.difference}
    tests |= {(place, "paired"): c.p_paired for place, c in enumerate(compared) if c.p_paired is not None}
    adjusted = dict(zip(tests, holm(list(tests.values())), strict=True))
    return [
        replace(c, p_holm=adjusted.get((place, "dealt")), p_paired_holm=adjusted.get((place, "paired")))
        for place, c in enumerate(compared)
    ]


def ratio_of_speeds(first: dict[int, float], second: dict[int, float]) -> tuple[float, float, float] | None:
    """How many times the first one's acquisitions a second the second one makes, over the seeds that both have: the
    geometric mean, the lowest and the highest; None without any."""
    ratios = [
        second[seed] / first[seed] for seed in sorted(first.keys() & second.keys()) if first[seed] and second[seed]
    ]
    if not ratios:
        return None
    return float(np.exp(np.mean(np.log(ratios)))), min(ratios), max(ratios)
