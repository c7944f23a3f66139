"""From the lines of the runs to a table of cells, and to the comparisons between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, Literal

import numpy as np
import pandas as pd

from harness.campaign.folder import RunLine
from harness.campaign.grid import Cell, Grid, Part
from harness.campaign.measure import BLAMES, quantile_ms
from harness.campaign.statistics import Difference, Rate, difference, holm, mcnemar, rate
from harness.checkers.disturbance import Figures as Machine

Unit = Literal["opportunity", "node outage", "run"]
UNITS: Final[dict[Unit, str]] = {"opportunity": "opportunities", "node outage": "node outages", "run": "runs"}


@dataclass(frozen=True, slots=True)
class Summary:
    """One cell over all of its seeds.

    `verdicts`: runs by verdict. `violated`: runs with an overlap by blame, of all finished runs. `per_unit`: how often
    an overlap blamed on the lock followed, of all runs, node outages and opportunities. Rates a second and quantiles
    are over all runs together; `by_seed` holds acquisitions a second by seed. `fsync_p50_ms` is the median of the runs'
    medians. `totals`: sums of the counts that checkers offer.
    `machine`: of each run that kept beats. `disturbed`: why, of each run that was too disturbed.
    """

    part: Part
    cell: Cell
    folders: tuple[str, ...]
    broke_off: tuple[str, ...]
    verdicts: dict[str, int]
    sections: int
    overlaps: dict[str, int]
    violated: dict[str, Rate]
    per_unit: dict[Unit, Rate]
    node_outages: int
    opportunities: int | None
    per_second: float | None
    by_seed: dict[int, float]
    hit_by_seed: dict[int, bool]
    acquire: dict[int, int]
    acquire_p50_ms: float | None
    acquire_p99_ms: float | None
    availability: float | None
    majority_waits_ms: tuple[float, ...]
    longest_gap_ms: float | None
    lost: int
    acknowledged: int
    faults_planned: int
    faults_observed: int
    fsync_p50_ms: float | None
    fsync_p99_ms: float | None
    orphans: int | None = None
    orphan_longest_ms: float | None = None
    overruns: int = 0
    unfounded: int | None = None
    totals: dict[str, int] = field(default_factory=dict)
    machine: tuple[Machine, ...] = ()
    disturbed: tuple[tuple[str, ...], ...] = ()

    @property
    def main_rate(self) -> tuple[Unit, Rate]:
        """The rate of the finest unit that was counted: an opportunity, else a node outage, else a run."""
        unit: Unit = next((u for u in UNITS if u in self.per_unit and self.per_unit[u].trials), "run")
        return unit, self.per_unit[unit]

    @property
    def majority_wait_ms(self) -> float | None:
        """The median."""
        return _median(self.majority_waits_ms)


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
    load_s = sum(f.load_s for f in figures)
    acquire = sum((Counter(f.acquire) for f in figures), Counter[int]())
    counted = [f for f in figures if f.opportunities is not None]
    per_unit: dict[Unit, Rate] = {
        "run": rate(sum(f.overlaps["lock"] > 0 for f in figures), len(figures)),
        "node outage": rate(sum(f.node_outages_hit for f in figures), sum(f.node_outages for f in figures)),
    }
    if counted and len(counted) == len(figures):
        opportunities = sum(f.opportunities or 0 for f in counted)
        per_unit["opportunity"] = rate(sum(f.opportunities_hit or 0 for f in counted), opportunities)
    return Summary(
        part=part,
        cell=cell,
        folders=tuple(line.folder for line, _ in done),
        broke_off=tuple(line.folder for line in lines if line.error is not None),
        verdicts=dict(Counter(line.verdict for line, _ in done)),
        sections=sum(f.sections for f in figures),
        overlaps={blame: sum(f.overlaps.get(blame, 0) for f in figures) for blame in BLAMES},
        violated={b: rate(sum(f.overlaps.get(b, 0) > 0 for f in figures), len(figures)) for b in BLAMES},
        per_unit=per_unit,
        node_outages=sum(f.node_outages for f in figures),
        opportunities=per_unit["opportunity"].trials if "opportunity" in per_unit else None,
        per_second=sum(f.grants for f in figures) / load_s if load_s else None,
        by_seed={line.seed: f.grants / f.load_s for line, f in done if f.load_s},
        hit_by_seed={line.seed: f.overlaps["lock"] > 0 for line, f in done},
        acquire=dict(acquire),
        acquire_p50_ms=quantile_ms(acquire, 0.5),
        acquire_p99_ms=quantile_ms(acquire, 0.99),
        availability=sum(f.reachable_s for f in figures) / load_s if load_s else None,
        majority_waits_ms=tuple(wait for f in figures for wait in f.majority_waits_ms),
        longest_gap_ms=max((f.longest_gap_ms for f in figures if f.longest_gap_ms is not None), default=None),
        lost=sum(f.lost for f in figures),
        acknowledged=sum(f.acknowledged for f in figures),
        faults_planned=sum(f.faults_planned for f in figures),
        faults_observed=sum(f.faults_observed for f in figures),
        fsync_p50_ms=_median([f.fsync_ms["p50"] for f in figures if f.fsync_ms]),
        fsync_p99_ms=_median([f.fsync_ms["p99"] for f in figures if f.fsync_ms]),
        orphans=_sum_of_known([f.orphans for f in figures]),
        orphan_longest_ms=max((f.orphan_longest_ms for f in figures if f.orphan_longest_ms is not None), default=None),
        overruns=sum(f.overruns for f in figures),
        unfounded=_sum_of_known([f.unfounded for f in figures]),
        machine=tuple(f.machine for f in figures if f.machine),
        disturbed=tuple(f.disturbed for f in figures if f.disturbed),
        totals=dict(sum((Counter(f.totals) for f in figures), Counter[str]())),
    )


def _sum_of_known(values: Sequence[int | None]) -> int | None:
    """None where nothing is known of any."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


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
