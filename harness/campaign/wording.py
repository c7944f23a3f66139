"""Rates, intervals and p values as every form of the report writes them. A zero never stands without its bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.text import MISSING, percent, plural
from harness.campaign.aggregate import Contrast, Summary
from harness.campaign.statistics import Rate

METHOD: Final = (
    "The run is the unit of every interval and test, because what happens within one run is not independent. A rate is "
    "the mean of the runs' own rates. Its 95 % interval (Gaffke's bounds; Clopper and Pearson's where a run is one "
    "trial) is of the rate to be expected of a run like these. “At most” bounds the share of such runs in which it "
    "happens at all. Each interval holds by itself: of a hundred, five may miss."
)
"""What every page says of its intervals."""


def interval(rate: Rate) -> str:
    """`13 % (3.8 % to 31 %)`; `at most 0.74 % of runs` for a zero; a dash without trials."""
    if rate.share is None:
        return MISSING
    if rate.events == 0:
        return f"at most {percent(rate.high, up=True)} of runs"
    return f"{percent(rate.share)} ({percent(rate.low)} to {percent(rate.high, up=True)})"


def counted(rate: Rate, what: str = "") -> str:
    """`4 of 30: 13 % (3.8 % to 31 %)`, `0 of 500 crashes in 10 runs: at most 31 % of runs`."""
    if not rate.trials:
        return "0 of 0: nothing was tried"
    return f"{count(rate, what)}: {interval(rate)}"


def clause(rate: Rate, what: str) -> str:
    """The same within a sentence: `0 of 11 crashes in 3 runs, at most 71 % of runs`."""
    return counted(rate, what).replace(": ", ", ")


def count(rate: Rate, what: str = "") -> str:
    """`4 of 30`, `0 of 500 crashes in 10 runs`. `what`: the name of the trials, if it is to be said."""
    runs = "" if rate.trials == rate.runs else f" in {plural(rate.runs, 'run')}"
    return f"{rate.events:,} of {rate.trials:,}{f' {what}' if what else ''}{runs}"


def difference(contrast: Contrast) -> str:
    """`+12 points (+3 to +27)`: percentage points, with the 95 % interval."""
    if contrast.difference is None:
        return MISSING
    d = contrast.difference
    return f"{100 * d.share:+.1f} points ({100 * d.low:+.1f} to {100 * d.high:+.1f})"


def p_value(p: float | None) -> str:
    if p is None:
        return MISSING
    return "<0.0001" if p < 0.0001 else f"{p:.2g}" if p < 0.995 else "1"


def speed(contrast: Contrast) -> str:
    """`0.62 × (0.60 to 0.65)`: the geometric mean over the seeds, the lowest and the highest."""
    if contrast.speed is None:
        return MISSING
    mean, low, high = contrast.speed
    return f"{mean:.2f} × ({low:.2f} to {high:.2f})"


def span(ratios: Sequence[float]) -> str:
    """`0.41 to 0.95`, or the one number that both ends are; a dash without any."""
    if not ratios:
        return MISSING
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return low if low == high else f"{low} to {high}"


def shares(found: Sequence[float]) -> str:
    """`33 % to 34 %`, or the one number that both ends are; a dash without any."""
    ends = dict.fromkeys(percent(end) for end in (min(found), max(found))) if found else [MISSING]
    return " to ".join(ends)


def verdicts(summary: Summary) -> str:
    """`10 runs: 7 valid, 3 violation`."""
    total = sum(summary.verdicts.values())
    parts = ", ".join(f"{count} {word}" for word, count in sorted(summary.verdicts.items()))
    text = f"{total} {'run' if total == 1 else 'runs'}" + (f": {parts}" if parts else "")
    return text + (f"; {len(summary.broke_off)} aborted" if summary.broke_off else "")
