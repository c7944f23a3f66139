"""Rates that were counted in runs, their intervals, and tests. The run is the unit of all of them.

Trials of one run (sections, node outages) share servers, faults and a machine, so they are no independent evidence:
each run adds one number, the share of its own trials. `docs/reports.md#statistics` states the model and where each
method comes from; `benchmarks/coverage.py` measures how often the intervals hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Final

import numpy as np
import numpy.typing as npt

CONFIDENCE: Final = 0.95
_TAIL: Final = (1 - CONFIDENCE) / 2
_MOST_EXACT: Final = 200_000
"""A test goes through every arrangement of the runs if there are no more than this, else through `_DRAWS` at random."""
_DRAWS: Final = 9_999
_WITHIN: Final = 1e-12

Count = tuple[int, int]
"""Events and trials of one run."""
Shares = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Rate:
    """`events` of `trials` in `runs` runs that had any trial. `share`: the mean of the runs' own shares, which is
    `events / trials` where all have equally many trials; None without runs. `low`, `high`: the ends of the two-sided
    95 % interval of the share that is expected of a run. All shares, not percent."""

    events: int
    trials: int
    runs: int
    share: float | None
    low: float
    high: float


def rate(events: int, runs: int) -> Rate:
    """Of runs that each show it or do not. Raises ValueError for more events than runs."""
    return rate_of(yes_or_no(events, runs))


def yes_or_no(events: int, runs: int) -> list[Count]:
    """The counts of runs of which each is one trial. Raises ValueError for more events than runs."""
    if not 0 <= events <= runs:
        raise ValueError(f"{events} of {runs} runs are no rate")
    return [(1, 1)] * events + [(0, 1)] * (runs - events)


def rate_of(counts: Iterable[Count]) -> Rate:
    """From the counts of each run; those without a trial say nothing. From 0 to 1 without runs. Raises ValueError for
    more events than trials."""
    tried = [(events, trials) for events, trials in counts if trials]
    shares = _shares(tried)
    return Rate(
        events=sum(events for events, _ in tried),
        trials=sum(trials for _, trials in tried),
        runs=len(tried),
        share=_mean(shares) if shares else None,
        low=1 - _upper_end(tuple(1 - share for share in shares)),
        high=_upper_end(shares),
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """The second rate minus the first, with its 95 % interval, and the p of a permutation test of the runs."""

    share: float
    low: float
    high: float
    p: float


def difference(first: Sequence[Count], second: Sequence[Count]) -> Difference | None:
    """None where one of them has no trials. The interval is Zou and Donner's, of the intervals of the two rates."""
    a, b = rate_of(first), rate_of(second)
    if a.share is None or b.share is None:
        return None
    delta = b.share - a.share
    return Difference(
        share=delta,
        low=delta - math.hypot(b.share - b.low, a.high - a.share),
        high=delta + math.hypot(b.high - b.share, a.share - a.low),
        p=_exchanged(_shares(first), _shares(second)),
    )


def paired(pairs: Iterable[tuple[Count, Count]]) -> float:
    """The p of a sign-flip test of the differences of runs that belong together; McNemar's exact test where each run is
    one trial. Pairs of which one run has no trials say nothing."""
    tried = [_shares(pair) for pair in pairs if all(trials for _, trials in pair)]
    return _flipped(tuple(second - first for first, second in tried if first != second))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values, adjusted for their number, in the same order."""
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = highest
    return adjusted


def _shares(counts: Iterable[Count]) -> Shares:
    found = []
    for events, trials in counts:
        if not 0 <= events <= trials:
            raise ValueError(f"{events} events of {trials} trials are no rate")
        if trials:
            found.append(events / trials)
    return tuple(found)


def _mean(shares: Shares) -> float:
    return math.fsum(shares) / len(shares)


@cache
def _upper_end(shares: Shares) -> float:
    """Gaffke's bound of the mean of numbers from 0 to 1: a Bayesian bootstrap over the runs and one more, in which
    everything went wrong; the 97.5 % quantile of the mean, weighted at random. Where every run is 0 or 1, it is Clopper
    and Pearson's bound."""
    values, times = np.unique([*shares, 1.0], return_counts=True)
    if len(values) == 1:
        return 1.0
    return _zero(lambda at: _beyond(at, values, times) - _TAIL, _mean((*shares, 0.0)), 1.0)


def _zero(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that is positive at `low` and negative at `high` is zero, by the Illinois method: secants, and
    the end that stays where it is counts half each time."""
    at_low, at_high, before = of(low), of(high), 0.0
    while high - low > _WITHIN:
        place = low + (high - low) * at_low / (at_low - at_high)
        value = of(place)
        if value == 0:
            return place
        if value > 0:
            low, at_low = place, value
            at_high /= 2 if before > 0 else 1
        else:
            high, at_high = place, value
            at_low /= 2 if before < 0 else 1
        before = value
    return (low + high) / 2


def _beyond(at: float, values: npt.NDArray[np.float64], times: npt.NDArray[np.int64]) -> float:
    """The probability that the mean of `values`, each `times` and all weighted by exponential numbers, is above `at`:
    that the weighted sum of their distances from it is positive, by Gil-Pelaez's inversion of its characteristic
    function. On a scale of logarithms the trapezoidal rule gives it to ten digits."""
    distance = values - at
    step = 0.5 / math.sqrt(times.sum() + 24)
    places = np.exp(np.arange(-40, 40, step))[:, None] * (distance / np.abs(distance).max())
    angle = np.arctan(places) @ times
    decay = np.exp(-0.5 * np.log1p(places**2) @ times)
    return float(0.5 + step / math.pi * (np.sin(angle) * decay).sum())


@cache
def _exchanged(first: Shares, second: Shares) -> float:
    """How often the means are at least so far apart if the runs are dealt to the two groups at random."""
    shares = np.array([*first, *second])
    if set(shares) <= {0.0, 1.0}:
        return _fishers(round(sum(first)), len(first), round(sum(second)), len(second))
    if math.comb(len(shares), len(first)) <= _MOST_EXACT:
        sums = shares[_groups(len(shares), len(first))].sum(axis=1)
    else:
        dealt = np.random.default_rng(0).permuted(np.tile(shares, (_DRAWS, 1)), axis=1)
        sums = np.append(dealt[:, : len(first)].sum(axis=1), sum(first))
    apart = np.abs(sums / len(first) - (shares.sum() - sums) / len(second))
    return float((apart >= abs(_mean(first) - _mean(second)) - 1e-9).mean())


def _fishers(first: int, of_first: int, second: int, of_second: int) -> float:
    """Fisher's exact test: how often the hits, dealt to the two groups at random, fall in a way that is no more likely
    than how they fell."""
    hits = first + second
    ways = [math.comb(of_first, here) * math.comb(of_second, hits - here) for here in range(hits + 1)]
    return sum(each for each in ways if each <= ways[first]) / sum(ways)


@cache
def _groups(runs: int, size: int) -> npt.NDArray[np.int64]:
    return np.array(list(combinations(range(runs), size)), np.int64)


@cache
def _flipped(differences: Shares) -> float:
    """How often their sum is at least so far from zero if each has either sign with the same probability."""
    if not differences:
        return 1.0
    if 2 ** len(differences) <= _MOST_EXACT:
        signs = np.array(list(product((-1, 1), repeat=len(differences))))
    else:
        drawn = np.random.default_rng(0).choice((-1, 1), (_DRAWS, len(differences)))
        signs = np.vstack([drawn, np.ones(len(differences))])
    return float((np.abs(signs @ np.array(differences)) >= abs(sum(differences)) - 1e-9).mean())
