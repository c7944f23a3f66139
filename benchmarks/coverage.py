"""How often do intervals of a rate hold that was counted in few runs, whose trials are not independent?

    python benchmarks/coverage.py [CAMPAIGNS]

Draws campaigns of which the true rate is known, and prints two tables in Markdown. The first has for each method the
share of its nominal 95 % intervals that contain that rate, and their mean width in percentage points. The second
compares two cells that have the same rate: how often a test at 5 % says that they differ, and how often the interval of
the difference contains zero.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from harness.campaign.statistics import Count, difference, paired, rate_of

Ends = tuple[float, float]

RUNS = (3, 5, 10, 30)
OUTAGES = 14
RATES = (0.01, 0.05, 0.3)
CLUSTERING: tuple[float | str, ...] = (0.0, 0.25, 0.7, "rare bad runs")
"""The intraclass correlation. 0.25 means that the number of events varies 4 times as much as of independent trials."""
BAD = 0.8


def drawn(draw: np.random.Generator, runs: int, true_rate: float, clustering: float | str) -> list[Count]:
    """The counts of one campaign."""
    if isinstance(clustering, str):
        own = np.where(draw.random(runs) < true_rate / BAD, BAD, 0.0)
    elif clustering:
        weight = 1 / clustering - 1
        own = draw.beta(true_rate * weight, (1 - true_rate) * weight, runs)
    else:
        own = np.full(runs, true_rate)
    return [(int(events), OUTAGES) for events in draw.binomial(OUTAGES, own)]


def by_run(counts: Sequence[Count]) -> Ends:
    """What every page shows."""
    found = rate_of(counts)
    return found.low, found.high


def independent(counts: Sequence[Count]) -> Ends:
    """Clopper and Pearson's of all trials together, as if each were independent of the others."""
    return _clopper_pearson(sum(events for events, _ in counts), sum(trials for _, trials in counts))


def student(counts: Sequence[Count]) -> Ends:
    """Student's of the runs' rates."""
    shares = np.array([events / trials for events, trials in counts])
    half = stats.t.ppf(0.975, len(shares) - 1) * shares.std(ddof=1) / math.sqrt(len(shares))
    return max(0.0, shares.mean() - half), min(1.0, shares.mean() + half)


def bootstrap(counts: Sequence[Count]) -> Ends:
    """Percentiles of runs drawn again and again."""
    shares = np.array([events / trials for events, trials in counts])
    again = np.random.default_rng(0).choice(shares, (1_000, len(shares))).mean(axis=1)
    low, high = np.quantile(again, (0.025, 0.975))
    return float(low), float(high)


def korn_graubard(counts: Sequence[Count]) -> Ends:
    """Clopper and Pearson's of an effective number of trials, by a cluster-robust variance; by runs where that is not
    defined. E. Korn and B. Graubard, Survey Methodology 24 (1998)."""
    events, trials = np.array(counts).T
    runs, everything = len(trials), trials.sum()
    share = events.sum() / everything
    if share in (0, 1):
        return _clopper_pearson(share * runs, runs)
    variance = runs / (runs - 1) * ((events - share * trials) ** 2).sum() / everything**2
    wider = stats.t.ppf(0.975, everything - 1) / stats.t.ppf(0.975, runs - 1)
    effective = min(everything, share * (1 - share) / variance * wider**2) if variance else everything
    return _clopper_pearson(share * effective, effective)


_ROOM = special.expit(np.linspace(-9, 9, 181))
_WEIGHTS = 1 / np.concatenate([np.logspace(-5, -3, 3), np.logspace(-2.7, math.log10(0.99), 16)]) - 1


def beta_binomial(counts: Sequence[Count]) -> Ends:
    """Where the profile likelihood of a beta-binomial model is not refuted (χ², one degree of freedom)."""
    a, b = np.outer(_ROOM, _WEIGHTS), np.outer(1 - _ROOM, _WEIGHTS)
    of_runs = [special.betaln(e + a, n - e + b) - special.betaln(a, b) for e, n in counts]
    likelihood = np.sum(of_runs, axis=0).max(axis=1)
    inside = np.flatnonzero(likelihood >= likelihood.max() - stats.chi2.ppf(0.95, 1) / 2)
    events, trials = (sum(column) for column in zip(*counts, strict=True))
    low = 0.0 if not events else _ROOM[max(inside[0] - 1, 0)]
    high = 1.0 if events == trials else _ROOM[min(inside[-1] + 1, len(_ROOM) - 1)]
    return float(low), float(high)


def _clopper_pearson(events: float, trials: float) -> Ends:
    low = stats.beta.ppf(0.025, events, trials - events + 1) if events > 0 else 0.0
    high = stats.beta.ppf(0.975, events + 1, trials - events) if events < trials else 1.0
    return float(low), float(high)


METHODS: dict[str, Callable[[Sequence[Count]], Ends]] = {
    "as independent": independent,
    "Student": student,
    "bootstrap": bootstrap,
    "beta-binomial": beta_binomial,
    "Korn–Graubard": korn_graubard,
    "Gaffke, by run": by_run,
}


def measured(campaigns: Sequence[Sequence[Count]], method: Callable[[Sequence[Count]], Ends], true_rate: float) -> str:
    ends: npt.NDArray[np.float64] = np.array([method(counts) for counts in campaigns])
    held = ((ends[:, 0] <= true_rate) & (true_rate <= ends[:, 1])).mean()
    return f"{100 * held:.0f} % ({100 * (ends[:, 1] - ends[:, 0]).mean():.0f})"


def fisher(first: Sequence[Count], second: Sequence[Count]) -> float:
    """Of all trials, as if each were independent of the others."""
    table = [[sum(e for e, _ in counts), sum(n - e for e, n in counts)] for counts in (first, second)]
    return float(stats.fisher_exact(np.array(table)).pvalue)


def compared(times: int) -> None:
    print(
        "| runs of each | true rate | correlation | Fisher, as independent | by run | by seed | zero in the interval |"
    )
    print("|---" * 7 + "|")
    draw = np.random.default_rng(2)
    for runs, true_rate, clustering in product(RUNS, (0.05, 0.3), CLUSTERING):
        false_alarms, holds = np.zeros(3), 0
        for _ in range(times):
            first, second = (drawn(draw, runs, true_rate, clustering) for _ in range(2))
            found = difference(first, second)
            assert found is not None
            p_values = fisher(first, second), found.p, paired(zip(first, second, strict=True))
            false_alarms += np.array(p_values) <= 0.05
            holds += found.low <= 0 <= found.high
        shares = " | ".join(f"{100 * share:.0f} %" for share in (*(false_alarms / times), holds / times))
        print(f"| {runs} | {100 * true_rate:g} % | {clustering} | {shares} |", flush=True)


def main(times: int) -> None:
    print(f"| runs | true rate | correlation | {' | '.join(METHODS)} |")
    print("|---" * (3 + len(METHODS)) + "|")
    draw = np.random.default_rng(1)
    for runs, true_rate, clustering in product(RUNS, RATES, CLUSTERING):
        campaigns = [drawn(draw, runs, true_rate, clustering) for _ in range(times)]
        cells = [measured(campaigns, method, true_rate) for method in METHODS.values()]
        print(f"| {runs} | {100 * true_rate:g} % | {clustering} | {' | '.join(cells)} |", flush=True)
    print()
    compared(times)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 300)
