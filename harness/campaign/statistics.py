"""Intervals and tests for counts that are small, and often zero: exact ones wherever there is one.

C. Clopper and E. Pearson, "The use of confidence or fiducial limits", Biometrika 26 (1934). R. Newcombe, "Interval
estimation for the difference between independent proportions", Statistics in Medicine 17 (1998), method 10. R. Fisher's
and Q. McNemar's exact tests. S. Holm, "A simple sequentially rejective multiple test procedure" (1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Rate:
    """`events` of `trials`, and the ends of the exact two-sided 95 % interval of the rate; shares, not percent."""

    events: int
    trials: int
    low: float
    high: float

    @property
    def share(self) -> float | None:
        """None without trials."""
        return self.events / self.trials if self.trials else None


def rate(events: int, trials: int) -> Rate:
    """With Clopper and Pearson's interval; from 0 to 1 without trials. Raises ValueError for what is no rate."""
    if not 0 <= events <= trials:
        raise ValueError(f"{events} events of {trials} trials are no rate")
    if not trials:
        return Rate(0, 0, 0.0, 1.0)
    interval = stats.binomtest(events, trials).proportion_ci(CONFIDENCE, method="exact")
    return Rate(events, trials, float(interval.low), float(interval.high))


@dataclass(frozen=True, slots=True)
class Difference:
    """The second rate minus the first, with Newcombe's hybrid-score 95 % interval, and the p of Fisher's exact test."""

    share: float
    low: float
    high: float
    p: float


def difference(first: Rate, second: Rate) -> Difference | None:
    """None where one of them has no trials."""
    if first.share is None or second.share is None:
        return None
    (low1, high1), (low2, high2) = _wilson(first), _wilson(second)
    delta = second.share - first.share
    table = np.array([[r.events, r.trials - r.events] for r in (second, first)])
    return Difference(
        share=delta,
        low=delta - math.hypot(second.share - low2, high1 - first.share),
        high=delta + math.hypot(high2 - second.share, first.share - low1),
        p=float(stats.fisher_exact(table).pvalue),
    )


def mcnemar(pairs: Sequence[tuple[bool, bool]]) -> float:
    """The exact p of McNemar's test for paired outcomes: whether, where the two differ, one is hit more often."""
    first = sum(a and not b for a, b in pairs)
    second = sum(b and not a for a, b in pairs)
    return float(stats.binomtest(first, first + second).pvalue) if first + second else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values, adjusted for their number, in the same order."""
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = highest
    return adjusted


def _wilson(value: Rate) -> tuple[float, float]:
    interval = stats.binomtest(value.events, value.trials).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)
