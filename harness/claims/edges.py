"""Where a claim stops to hold: the same load at several points on both sides of the predicted edge.

A script shows that something is possible on one side and not on the other. An edge sweeps across: at every point the
same seeded load is played, and what happened is counted among how often it could have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

from harness.campaign.adding import hits_of
from harness.campaign.folder import RunLine
from harness.campaign.measure import Figures
from harness.campaign.statistics import Count, Rate, rate_of

TTL_MS: Final = 1_000
VALIDITY_TTLS: Final = 0.99 - 2 / TTL_MS
"""What the reference lock promises: the TTL less 1 % and 2 ms for clocks that run at other rates."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A sweep. `axis`: what the points are values of; `unit`: of what. `predicted`: where the edge is; nothing happens
    on the side `safe` of it, nor at the edge itself. `counts`: of a run, how often `what` happened, and in how many
    `trials`. `options`: of `fencepost test` at a point. `coarse`: the points of a quick form."""

    name: str
    axis: str
    unit: str
    predicted: float
    why: str
    safe: Literal["below", "above"]
    what: str
    trials: str
    counts: Callable[[Figures], Count]
    options: Callable[[float], Mapping[str, str]]
    points: Sequence[float]
    coarse: Sequence[float]

    def cell(self, point: float) -> str:
        """What the runs at this point are filed under."""
        return f"{self.name} {point:g} {self.unit}"

    def is_safe(self, point: float) -> bool:
        """Whether nothing may happen there, as predicted."""
        return point <= self.predicted if self.safe == "below" else point >= self.predicted


@dataclass(frozen=True, slots=True)
class Seen:
    """What a sweep showed: the counts of each run at each point. `missing`: runs that are still to be made."""

    edge: Edge
    counts: Mapping[float, Sequence[Count]]
    missing: int

    @property
    def rates(self) -> Mapping[float, Rate]:
        """The rate at each point."""
        return {point: rate_of(counts) for point, counts in self.counts.items()}

    def pooled(self, *, safe: bool) -> Rate:
        """The runs at all points of one side together."""
        side = (counts for point, counts in self.counts.items() if self.edge.is_safe(point) is safe)
        return rate_of(chain.from_iterable(side))


def seen_of(edge: Edge, lines: Sequence[RunLine], runs: int, *, coarse: bool) -> Seen:
    """`lines`: of all cells. `runs`: how many each point gets. A run that was aborted, or is unknown, counts
    nothing."""
    counts, missing = {}, 0
    for point in edge.coarse if coarse else edge.points:
        finished = [line for line in lines if line.cell == edge.cell(point) and line.error is None]
        missing += max(0, runs - len(finished))
        counts[point] = [edge.counts(line.figures) for line in finished if line.figures and line.verdict != "unknown"]
    return Seen(edge, counts, missing)


def overlaps_per_section(figures: Figures) -> Count:
    """No more pairs of sections count than there are sections: a rate has no more events than trials."""
    return min(figures.overlaps["lock"], figures.sections), figures.sections


def _all_overlaps(figures: Figures) -> Count:
    return min(sum(figures.overlaps.values()), figures.sections), figures.sections


def overlaps_per_outage(figures: Figures) -> Count:
    return hits_of(figures, "node_outages") or (0, 0)


_USUAL: Final = {
    "lock": "redlock",
    "require": "lease",
    "ttl": f"{TTL_MS}ms",
    "duration": "4s",
    "recovery": "0",
    "retry-delay": "4ms",
}
# Two keys, and for each a client inside, one that outlives its lease, and one that asks.
_HANDED_ON: Final = {**_USUAL, "clients": "6", "keys": "2"}
_OUTLIVED: Final = f"{1.1 * TTL_MS:.0f}ms"
"""Longer than the TTL, so that the next client gets in when the keys expire and not when they are released."""

RESTART_DELAY: Final = Edge(
    name="restart-delay",
    axis="how long a node that crashed stays down",
    unit="TTL",
    predicted=1,
    why="every lease that the node may have granted has expired",
    safe="above",
    what="overlaps blamed on the lock",
    trials="crashes",
    counts=overlaps_per_outage,
    options=lambda ttls: {
        **_USUAL,
        "clients": "4",
        "hold": _OUTLIVED,
        "nemesis": f"hunt:how=crash,restart-delay={ttls:g}ttl,interval=100ms",
    },
    points=(0, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.3),
    coarse=(0, 0.5, 0.8, 1, 1.2),
)
DRIFT: Final = Edge(
    name="drift",
    axis="by how much the clocks of a majority run fast",
    unit="%",
    predicted=round(100 * (1 / VALIDITY_TTLS - 1), 2),
    why="the validity allows for 1 % of the TTL and 2 ms",
    safe="below",
    what="overlaps blamed on the lock",
    trials="sections",
    counts=overlaps_per_section,
    options=lambda percent: {
        **_HANDED_ON,
        "hold": _OUTLIVED,
        "nemesis": f"clock:kind=drift,way=ahead,targets=majority,"
        f"rate={percent:g}-{percent:g},interval=100ms,duration=30s",
    },
    points=(0.5, 1, 1.5, 2, 3, 4, 6, 10),
    coarse=(0.5, 1, 2, 4, 10),
)
HOLD: Final = Edge(
    name="hold",
    axis="how long a holder stays inside",
    unit="TTL",
    predicted=VALIDITY_TTLS,
    why="the validity that the lock promises is over",
    safe="below",
    what="overlaps",
    trials="sections",
    counts=_all_overlaps,
    options=lambda ttls: {**_HANDED_ON, "hold": f"{ttls * TTL_MS:g}ms", "nemesis": "none"},
    points=(0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2),
    coarse=(0.8, 0.95, 1, 1.05, 1.2),
)

EDGES: Final[Mapping[str, Edge]] = {edge.name: edge for edge in (RESTART_DELAY, DRIFT, HOLD)}
