"""Counts, durations and bounds as people read them. A leaf: pure functions from values to short texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

MISSING: Final = "–"


def printable(text: str) -> str:
    """The text on one line without control characters, escape sequences or lone surrogates: errors quote foreign
    programs, and neither a terminal nor a page may obey them."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def printable_lines(text: str) -> str:
    """The same of a text that may have several lines."""
    return "\n".join(map(printable, text.split("\n")))


def cut(text: str, most: int) -> str:
    """The text as it may be printed, cut to at most `most` characters, an ellipsis among them."""
    plain = printable(text)
    return plain if len(plain) <= most else f"{plain[: max(0, most - 1)]}…"


def text_of(value: bytes) -> str:
    """Bytes that a lock wrote on a node, as text: UTF-8 if they are that, else `0x` and their hexadecimal digits. Equal
    bytes give equal texts, so that what a client's log says and what the witness saw can be compared."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "0x" + value.hex()


def count(value: object) -> str:
    """`1,234`, or a dash for what was not counted."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else MISSING


def listed(names: Sequence[str]) -> str:
    """`n1`, `n1 and n2`, `n1, n2 and n3`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def milliseconds(value: object) -> str:
    """A duration given in ms, with the unit that reads best: `85 µs`, `3.2 ms`, `410 ms`, `2.31 s`, `4 min 10 s`."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return MISSING
    size = abs(value)
    if size < 0.0005:
        return "0 ms"
    if size < 1:
        return f"{value * 1000:.0f} µs"
    if size < 10:
        return f"{value:.1f} ms"
    if size < 1_000:
        return f"{value:.0f} ms"
    if size < 120_000:
        return f"{value / 1000:.3g} s" if size < 100_000 else f"{value / 1000:.0f} s"
    minutes, seconds = divmod(round(value / 1000), 60)
    return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"


def number(value: object, digits: int = 3) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return MISSING
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"


def percent(share: float, *, up: bool = False) -> str:
    """`0.74 %`: two digits, three where two would say that it is all. `up` rounds up: an upper bound must not be
    understated."""
    value = 100 * share
    if value >= 99.95 and not up:
        return "100 %" if share == 1 else ">99.9 %"
    if value <= 0:
        return "0 %"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    if not up and 99.5 <= value < 100:
        unit /= 10
    steps = math.ceil(value / unit - 1e-9) if up else round(value / unit)
    decimals = max(0, -math.floor(math.log10(unit)))
    return f"{min(steps * unit, 100):.{decimals}f} %"


def upper_bound_percent(trials: int) -> float:
    """The exact upper end, in percent, of the two-sided 95 % interval of a rate that showed 0 events in `trials`, each
    independent of the others. Clopper and Pearson's; for zero events it has the closed form 1 − 0.025^(1/n).
    """
    if trials <= 0:
        return 100.0
    return -100 * math.expm1(math.log(0.025) / trials)


def bound(trials: int) -> str:
    """`95 % upper bound for this run 0.30 %`: of the rate of one run, not of others. Two digits, rounded up, because a
    bound must not be understated."""
    percent = upper_bound_percent(trials)
    unit = 10.0 ** (math.floor(math.log10(percent)) - 1)
    rounded = min(math.ceil(percent / unit - 1e-9) * unit, 100.0)
    decimals = max(0, -math.floor(math.log10(unit)))
    return f"95 % upper bound for this run {rounded:.{decimals}f} %"


def of_sections(events: object, sections: object) -> str:
    """`0 of 1,234 sections (95 % upper bound for this run 0.30 %)`; the bound only for a zero count."""
    return out_of(events, sections, "section", "sections")


def out_of(events: object, trials: object, one: str, many: str) -> str:
    """The same of anything that was tried."""
    if not isinstance(events, int):
        return MISSING
    if not isinstance(trials, int):
        return count(events)
    text = f"{events:,} of {trials:,} {one if trials == 1 else many}"
    return f"{text} ({bound(trials)})" if events == 0 and trials > 0 else text
