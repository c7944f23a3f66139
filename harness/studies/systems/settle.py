"""What the runs say of each system, number by number, each with the cells that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Final

from fencepost.text import milliseconds, number, percent
from harness.campaign.adding import add_up
from harness.campaign.aggregate import speed_of
from harness.campaign.durations import quantiles
from harness.campaign.folder import RunLine
from harness.campaign.measure import Figures
from harness.campaign.statistics import Count, Rate, rate_of
from harness.campaign.study import Played
from harness.studies.systems.table import (
    ALONE,
    FAULTS,
    KILLED,
    LED,
    SYSTEMS,
    TOKENS,
    WITHOUT,
    Crowd,
    System,
)


@dataclass(frozen=True, slots=True)
class RunShare:
    """A rate over runs, and the cells that these are of."""

    rate: Rate
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunSpread:
    """The median of what each run showed, the lowest and the highest; None where no run showed it."""

    middle: float | None
    low: float | None
    high: float | None
    runs: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SystemRow:
    """What is known of one system. `cannot`: why this machine cannot play it, empty if it can. `lines`: of its runs by
    cell, with the cells that have none yet.

    `exclusive`: runs in which two clients were inside at once, by any blame; `broken`: in which the lock is to blame.
    `lost`: runs that lost data under the faults that are played with tokens as well, by how it was guarded;
    `lost_otherwise`: under the others, without tokens. `served`: the share of the time in which the lock was granted,
    by fault. `per_second`: acquisitions, by crowd. `p50_ms`, `p99_ms`: of an acquire of a client alone."""

    system: System
    cannot: str
    lines: Mapping[str, Sequence[RunLine]]
    exclusive: RunShare
    broken: RunShare
    lost: Mapping[str, RunShare]
    lost_otherwise: RunShare
    served: Mapping[str, RunShare]
    per_second: Mapping[str, RunSpread]
    p50_ms: RunSpread
    p99_ms: RunSpread
    dead_holder_ms: RunSpread
    outage_ms: RunSpread
    memory_mib: RunSpread
    disk_mib: RunSpread

    @property
    def runs(self) -> int:
        return sum(map(len, self.lines.values()))

    @property
    def runs_that_lost(self) -> int:
        """Of those without tokens."""
        return self.lost[WITHOUT].rate.events + self.lost_otherwise.rate.events


_Pick = Callable[[Mapping[str, str]], bool]
"""Whether a cell at this place counts."""


def settle(played: Played) -> list[SystemRow]:
    """A row for each system of the grid, in the table's order."""
    grid = played.campaign.grid
    cells: dict[str, dict[str, Mapping[str, str]]] = {}
    for name, (_, cell) in grid.cells.items():
        cells.setdefault(cell.at["system"], {})[name] = cell.at
    cannot = {grid.at(cell)["system"]: str(error) for cell, error in played.cannot.items()}
    return [_row(s, cells[s.name], played.lines, cannot.get(s.name, "")) for s in SYSTEMS if s.name in cells]


def _row(system: System, at: Mapping[str, Mapping[str, str]], lines: Iterable[RunLine], cannot: str) -> SystemRow:
    finished: dict[str, list[RunLine]] = {cell: [] for cell in at}
    for line in lines:
        if line.cell in finished and line.error is None and line.figures is not None:
            finished[line.cell].append(line)
    of = _SystemRuns(at, finished)
    crowds = list(dict.fromkeys(place["crowd"] for place in at.values() if "crowd" in place))
    faults = [fault.name for fault in FAULTS if any(place.get("fault") == fault.name for place in at.values())]
    return SystemRow(
        system=system,
        cannot=cannot,
        lines=finished,
        exclusive=of.share(_under_faults, lambda f: (int(any(f.overlaps.values())), 1)),
        broken=of.share(_under_faults, lambda f: (int(f.overlaps.get("lock", 0) > 0), 1)),
        lost={tokens: of.share(_where(tokens, has_tokens=True), _lost) for tokens in TOKENS},
        lost_otherwise=of.share(_where(WITHOUT, has_tokens=False), _lost),
        served={
            fault: of.share(_is(fault=fault, data=WITHOUT), lambda f: (f.moments_served, f.moments), unknown=True)
            for fault in faults
        },
        per_second={crowd: of.spread(_is(crowd=crowd), speed_of) for crowd in crowds},
        p50_ms=of.spread(_is(crowd=ALONE.name), lambda f: quantiles(f.acquire)["p50"]),
        p99_ms=of.spread(_is(crowd=ALONE.name), lambda f: quantiles(f.acquire)["p99"]),
        dead_holder_ms=of.spread_of_all(_is(fault=KILLED), lambda f: f.dead_holder_waits_ms),
        outage_ms=of.spread_of_all(_is(fault=LED), lambda f: f.outage_waits_ms),
        memory_mib=of.spread(_is(crowd=ALONE.name), lambda f: f.memory_mib),
        disk_mib=of.spread(_is(crowd=ALONE.name), lambda f: f.disk_mib),
    )


def _under_faults(at: Mapping[str, str]) -> bool:
    return "fault" in at


def _where(tokens: str, *, has_tokens: bool) -> _Pick:
    """Under the faults that are played with tokens as well, or under the others; the data guarded in this way."""
    faults = [fault.name for fault in FAULTS if fault.with_tokens is has_tokens]
    return lambda at: at.get("data") == tokens and at["fault"] in faults


def _lost(figures: Figures) -> Count:
    return int(figures.lost > 0), 1


def _is(**wanted: str) -> _Pick:
    return lambda at: wanted.items() <= at.items()


@dataclass(frozen=True, slots=True)
class _SystemRuns:
    """The runs of one system. `at`: the place of each cell."""

    at: Mapping[str, Mapping[str, str]]
    lines: Mapping[str, Sequence[RunLine]]

    def share(self, pick: _Pick, counts: Callable[[Figures], Count], *, unknown: bool = False) -> RunShare:
        """`unknown`: a run whose verdict is unknown counts, too."""
        cells, lines = self._picked(pick)
        counted = (line.figures for line in lines if line.figures and (unknown or line.verdict != "unknown"))
        return RunShare(rate_of(map(counts, counted)), cells)

    def spread(self, pick: _Pick, number: Callable[[Figures], float | None]) -> RunSpread:
        """Of a number that each run has."""
        return self._spread(pick, lambda figures: [number(figures)])

    def spread_of_all(self, pick: _Pick, numbers: Callable[[Figures], Sequence[float]]) -> RunSpread:
        """Of the median of several that each run has."""
        return self._spread(pick, lambda figures: [median(numbers(figures))] if numbers(figures) else [])

    def _spread(self, pick: _Pick, numbers: Callable[[Figures], Iterable[float | None]]) -> RunSpread:
        cells, lines = self._picked(pick)
        known = [each for line in lines if line.figures for each in numbers(line.figures) if each is not None]
        if not known:
            return RunSpread(None, None, None, 0, cells)
        return RunSpread(median(known), min(known), max(known), len(known), cells)

    def _picked(self, pick: _Pick) -> tuple[tuple[str, ...], list[RunLine]]:
        """The cells that count, and their runs."""
        cells = tuple(cell for cell, at in self.at.items() if pick(at))
        return cells, [line for cell in cells for line in self.lines[cell]]


def figures_of(row: SystemRow, cell: str) -> Figures | None:
    """Of all runs of a cell together; None without any."""
    found = [line.figures for line in row.lines[cell] if line.figures]
    return add_up(Figures, found) if found else None


@dataclass(frozen=True, slots=True)
class Need:
    """What a reader may need most. `of`: the number that decides; the least of them is best if `is_least`, else the
    largest. `text`: how it is written, and `unit`: what a share is of. `rules_out`: how many runs failed the need
    outright; a system with one is not recommended."""

    name: str
    asks: str
    of: Callable[[SystemRow], RunSpread | RunShare]
    text: Callable[[float], str]
    unit: str = ""
    is_least: bool = True
    rules_out: Callable[[SystemRow], int] = lambda row: 0


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The recommendation for a need: the best system, and those that the runs cannot tell from it: their intervals
    overlap, or one of the two has no interval, because it is of one run. None where no system has a number, or
    `none_fits`."""

    need: Need
    best: SystemRow | None
    alike: tuple[SystemRow, ...]
    none_fits: bool = False


def ends(of: RunSpread | RunShare) -> tuple[float, float, float] | None:
    """The number, and the ends of its interval: of a rate the 95 % interval, of others the lowest and the highest run,
    which of one run may be anywhere. None without a run."""
    if isinstance(of, RunShare):
        return None if of.rate.share is None else (of.rate.share, of.rate.low, of.rate.high)
    if of.middle is None or of.low is None or of.high is None:
        return None
    return (of.middle, of.low, of.high) if of.runs > 1 else (of.middle, -inf, inf)


def choose(need: Need, rows: Sequence[SystemRow]) -> Recommendation:
    """Only systems whose lock is never to blame are recommended."""
    known = [(row, found) for row in rows if (found := ends(need.of(row))) is not None]
    fitting = [(row, found) for row, found in known if not row.broken.rate.events and not need.rules_out(row)]
    if not fitting:
        return Recommendation(need, None, (), none_fits=bool(known))
    sign = 1 if need.is_least else -1
    best, (_, low, high) = min(fitting, key=lambda one: (sign * one[1][0], one[1][2] - one[1][1]))
    alike = (row for row, (_, a, b) in fitting if row is not best and a <= high and low <= b)
    return Recommendation(need, best, tuple(alike))


def _a_second(rate: float) -> str:
    return f"{number(rate)}/s"


def _grants(crowd: Crowd) -> Callable[[SystemRow], RunSpread]:
    return lambda row: row.per_second.get(crowd.name, _NOTHING)


_NOTHING: Final = RunSpread(None, None, None, 0, ())
BUSY: Final = Crowd(16, 1)
MANY: Final = Crowd(16, 16)
NEEDS: Final = (
    Need(
        "data",
        "Which loses no data, even where no token guards it?",
        lambda row: row.lost[WITHOUT],
        percent,
        "of runs lost data",
        rules_out=lambda row: row.runs_that_lost,
    ),
    Need("latency", "Which acquires fastest?", lambda row: row.p50_ms, milliseconds),
    Need("contended", f"Which grants most with {BUSY.name}?", _grants(BUSY), _a_second, is_least=False),
    Need("parallel", f"Which grants most with {MANY.name}?", _grants(MANY), _a_second, is_least=False),
    Need(
        "available",
        "Which serves on while a server is down?",
        lambda row: row.served.get(LED, _NOTHING),
        percent,
        "served",
        is_least=False,
    ),
    Need("dead holder", "Which frees a dead client's lock soonest?", lambda row: row.dead_holder_ms, milliseconds),
    Need("small", "Which needs the least memory?", lambda row: row.memory_mib, lambda mib: f"{number(mib)} MiB"),
)
