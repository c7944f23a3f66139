"""From the lines of the runs to a table of cells, and to the comparisons between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal

import numpy as np
import pandas as pd

from harness.campaign.adding import add_up
from harness.campaign.folder import RunLine
from harness.campaign.grid import Cell, Grid, Part
from harness.campaign.measure import BLAMES, Figures
from harness.campaign.statistics import Difference, Rate, difference, holm, mcnemar, rate

Unit = Literal["opportunity", "node outage", "run"]
UNITS: Final[dict[Unit, str]] = {"opportunity": "opportunities", "node outage": "node outages", "run": "runs"}


@dataclass(frozen=True, slots=True)
class Summary:
    """One cell over all of its seeds.

    `total`: the figures of all of its runs together. `verdicts`: runs by verdict. `violated`: runs with an overlap by
    blame, of all finished runs. `per_unit`: how often an overlap blamed on the lock followed, of all runs, node outages
    and opportunities. `by_seed`: acquisitions a second. `disturbed`: why, of each run that was too disturbed.
    """

    part: Part
    cell: Cell
    total: Figures
    folders: tuple[str, ...]
    broke_off: tuple[str, ...]
    verdicts: dict[str, int]
    violated: dict[str, Rate]
    per_unit: dict[Unit, Rate]
    by_seed: dict[int, float]
    hit_by_seed: dict[int, bool]
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

    `difference`: of the rate of violations a `unit`, second minus first, with Fisher's exact test. `p_paired`: of
    McNemar's exact test over the seeds that both have. `p_holm`: Fisher's p, adjusted for all contrasts of the part.
    `speed`: how many times the first one's acquisitions a second the second one makes, seed by seed: the geometric
    mean, the lowest and the highest.
    """

    part: Part
    first: Cell
    second: Cell
    axis: str
    unit: Unit
    difference: Difference | None
    p_holm: float | None
    p_paired: float | None
    speed: tuple[float, float, float] | None


def speed_of(figures: Figures) -> float | None:
    """Acquisitions a second."""
    return figures.grants / figures.load_s if figures.load_s else None


def summaries(grid: Grid, lines: Sequence[RunLine]) -> list[Summary]:
    """One for each cell of the grid, in its order; also for a cell that has no run yet."""
    frame = pd.DataFrame({"cell": [line.cell for line in lines], "line": list(lines)})
    by_cell = {str(name): group["line"].tolist() for name, group in frame.groupby("cell", sort=False)}
    return [_summary(part, cell, by_cell.get(cell.name, [])) for part, cell in grid.cells.values()]


def contrasts(part: Part, found: Iterable[Summary]) -> list[Contrast]:
    """Along each axis every value against the baseline, all else equal; then the pairs that the grid names."""
    by_name = {summary.cell.name: summary for summary in found}
    chosen: list[tuple[str, Cell, Cell]] = []
    for axis, values in part.axes.items():
        baseline = part.baseline.get(axis, values[0])
        for a, b in combinations(part.cells, 2):
            if {name for name in a.at if a.at.get(name) != b.at.get(name)} == {axis} and a.at.keys() == b.at.keys():
                if a.at[axis] == baseline:
                    chosen.append((axis, a, b))
                elif b.at[axis] == baseline:
                    chosen.append((axis, b, a))
    cells = {cell.name: cell for cell in part.cells}
    chosen += [("", cells[a], cells[b]) for a, b in part.pairs]
    raw = [_contrast(part, axis, by_name[a.name], by_name[b.name]) for axis, a, b in chosen]
    tested = [c for c in raw if c.difference is not None]
    adjusted = dict(zip(map(id, tested), holm([c.difference.p for c in tested if c.difference]), strict=True))
    return [
        Contrast(c.part, c.first, c.second, c.axis, c.unit, c.difference, adjusted.get(id(c)), c.p_paired, c.speed)
        for c in raw
    ]


def pooled(found: Sequence[Summary]) -> tuple[Unit, Rate]:
    """The rate of all these cells together, in the finest unit that was counted in every one of them that has a run."""
    run = [summary.per_unit for summary in found if summary.verdicts]
    for unit in UNITS:
        if all(unit in counted for counted in run) and (trials := sum(counted[unit].trials for counted in run)):
            return unit, rate(sum(counted[unit].events for counted in run), trials)
    return "run", rate(0, 0)


def _summary(part: Part, cell: Cell, lines: list[RunLine]) -> Summary:
    done = [(line, line.figures) for line in lines if line.error is None and line.figures is not None]
    figures = [f for _, f in done]
    return Summary(
        part=part,
        cell=cell,
        total=add_up(Figures, figures),
        folders=tuple(line.folder for line, _ in done),
        broke_off=tuple(line.folder for line in lines if line.error is not None),
        verdicts=dict(Counter(line.verdict for line, _ in done)),
        violated={blame: rate(sum(map(bool, _overlaps(figures, blame))), len(figures)) for blame in BLAMES},
        per_unit=_per_unit(figures),
        by_seed={line.seed: speed for line, f in done if (speed := speed_of(f)) is not None},
        hit_by_seed={line.seed: f.overlaps["lock"] > 0 for line, f in done},
        disturbed=tuple(f.disturbed for f in figures if f.disturbed),
    )


def _per_unit(figures: Sequence[Figures]) -> dict[Unit, Rate]:
    """How often an overlap blamed on the lock followed, of each unit that was counted in every run."""
    found: dict[Unit, Rate] = {
        "run": rate(sum(map(bool, _overlaps(figures, "lock"))), len(figures)),
        "node outage": rate(sum(f.node_outages_hit for f in figures), sum(f.node_outages for f in figures)),
    }
    opportunities = [f.opportunities for f in figures if f.opportunities is not None]
    if figures and len(opportunities) == len(figures):
        found["opportunity"] = rate(sum(f.opportunities_hit or 0 for f in figures), sum(opportunities))
    return found


def _overlaps(figures: Iterable[Figures], blame: str) -> Iterator[int]:
    return (f.overlaps.get(blame, 0) for f in figures)


def _contrast(part: Part, axis: str, first: Summary, second: Summary) -> Contrast:
    both: list[Unit] = [u for u in UNITS if all(s.per_unit[u].trials for s in (first, second) if u in s.per_unit)]
    unit: Unit = next((u for u in both if u in first.per_unit and u in second.per_unit), "run")
    seeds = sorted(first.hit_by_seed.keys() & second.hit_by_seed.keys())
    safety = part.kind == "safety"
    return Contrast(
        part=part,
        first=first.cell,
        second=second.cell,
        axis=axis,
        unit=unit,
        difference=difference(first.per_unit[unit], second.per_unit[unit]) if safety else None,
        p_holm=None,
        p_paired=mcnemar([(first.hit_by_seed[s], second.hit_by_seed[s]) for s in seeds]) if safety and seeds else None,
        speed=ratio_of_speeds(first.by_seed, second.by_seed),
    )


def ratio_of_speeds(first: dict[int, float], second: dict[int, float]) -> tuple[float, float, float] | None:
    """How many times the first one's acquisitions a second the second one makes, over the seeds that both have: the
    geometric mean, the lowest and the highest; None without any."""
    ratios = [
        second[seed] / first[seed] for seed in sorted(first.keys() & second.keys()) if first[seed] and second[seed]
    ]
    if not ratios:
        return None
    return float(np.exp(np.mean(np.log(ratios)))), min(ratios), max(ratios)
