"""What the runs of a load show: the number of each, and whether it is as expected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from fencepost.text import number, plural
from harness.campaign.folder import RunLine
from harness.campaign.statistics import Rate, rate_of
from harness.campaign.wording import clause
from harness.claims.loads import Load


@dataclass(frozen=True, slots=True)
class Measured:
    """`numbers`: one a run that showed any. `pooled`: events of trials over all of these runs, if the load counts
    events."""

    load: Load
    numbers: tuple[float, ...]
    pooled: Rate | None = None

    @property
    def in_words(self) -> str:
        """`812 grants a second (794 to 830 in 5 runs)`: the median of the runs, the least and the most; or the pooled
        rate."""
        expects = self.load.expects
        if self.pooled is not None:
            return f"{expects.unit}: {clause(self.pooled, expects.trials)}"
        if not self.numbers:
            return "no run showed it"
        middle, least, most = (_shown(value) for value in (median(self.numbers), min(self.numbers), max(self.numbers)))
        unit = expects.unit.format(beside=self.load.beside)
        return f"{middle} {unit} ({least} to {most} in {plural(len(self.numbers), 'run')})"


def measured_of(load: Load, finished: Sequence[RunLine], lines: Iterable[RunLine]) -> Measured:
    """`finished`: the runs of the load; `lines`: all runs, among them the ones that it is compared with."""
    known = [(line, value) for line in finished if (value := _number(load, line, lines)) is not None]
    counts = load.expects.counts
    pooled = None
    if counts is not None:
        pooled = rate_of(counts(line.figures) for line, _ in known if line.figures is not None)
    return Measured(load, tuple(value for _, value in known), pooled)


def outcome_of(load: Load, line: RunLine, lines: Iterable[RunLine]) -> Literal["held", "failed", "unknown"]:
    """Whether this run is as expected. A run whose verdict is unknown shows nothing."""
    value = _number(load, line, lines)
    if value is None:
        return "unknown"
    return "held" if load.expects.least <= value <= load.expects.most else "failed"


def _number(load: Load, line: RunLine, lines: Iterable[RunLine]) -> float | None:
    """What is read of a run; None where nothing can be."""
    own = _read(load, line)
    if own is None or not load.beside:
        return own
    other = next((_read(load, each) for each in lines if each.slot == (load.beside, line.seed)), None)
    return own / other if other else None


def _read(load: Load, line: RunLine) -> float | None:
    return load.expects.number(line.figures) if line.figures and line.verdict != "unknown" else None


def _shown(value: float) -> str:
    return number(value, 0 if value >= 100 else 2)
