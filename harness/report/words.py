"""The words and numbers that every report shares: counts, durations, bounds, and the sentence of a verdict.

Everything here is pure and tolerates what is missing: a run that crashed leaves few figures, and its report shows
those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from harness.checkers.base import Blame, Finding, Verdict
from harness.config import Requirement
from workloads.hold import Hold

MISSING: Final = "–"

_BLAME: Final[Mapping[Blame, str]] = {
    "lock": "the lock is to blame",
    "client": "the client is to blame: it outlived its lease",
    "undecided": "who is to blame is undecided",
    "resource": "the resource is to blame",
    "harness": "the harness itself is to blame",
}
_KEPT: Final[Mapping[Requirement, str]] = {
    "lease": "no overlap blamed on the lock",
    "exclusion": "no overlap at all",
    "data": "no lost update and no stale write accepted",
}


def printable(text: str) -> str:
    """The text on one line without control characters, escape sequences or lone surrogates: errors quote foreign
    programs, and neither a terminal nor a page may obey them."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def count(value: object) -> str:
    """`1,234`, or a dash for what was not counted."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else MISSING


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def milliseconds(value: object) -> str:
    """A duration given in ms, with the unit that reads best: `85 µs`, `3.2 ms`, `410 ms`, `2.31 s`, `4 min 10 s`."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return MISSING
    size = abs(value)
    if size == 0:
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


def upper_bound_percent(trials: int) -> float:
    """The exact upper end, in percent, of the two-sided 95 % interval of a rate that showed 0 events in `trials`.

    Clopper and Pearson's interval; for zero events its upper end has the closed form 1 − 0.025^(1/n).
    """
    if trials <= 0:
        return 100.0
    return -100 * math.expm1(math.log(0.025) / trials)


def bound(trials: int) -> str:
    """`95 % upper bound 0.30 %`: two digits, rounded up, because a bound must not be understated."""
    percent = upper_bound_percent(trials)
    unit = 10.0 ** (math.floor(math.log10(percent)) - 1)
    rounded = min(math.ceil(percent / unit - 1e-9) * unit, 100.0)
    decimals = max(0, -math.floor(math.log10(unit)))
    return f"95 % upper bound {rounded:.{decimals}f} %"


def of_sections(events: object, sections: object) -> str:
    """`0 of 1,234 sections (95 % upper bound 0.30 %)`; the bound only where it says something: for a zero count."""
    return out_of(events, sections, "section", "sections")


def out_of(events: object, trials: object, one: str, many: str) -> str:
    """The same of anything that was tried."""
    if not isinstance(events, int):
        return MISSING
    if not isinstance(trials, int):
        return count(events)
    text = f"{events:,} of {trials:,} {one if trials == 1 else many}"
    return f"{text} ({bound(trials)})" if events == 0 and trials > 0 else text


def figure(verdict: Verdict, *path: str) -> object:
    """The figure at a path such as ("liveness", "wait_ms", "p50"), or None where a run has none."""
    value: object = verdict.figures
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def figures(verdict: Verdict, *path: str) -> Mapping[str, object]:
    """The group of figures at a path, empty where a run has none."""
    value = figure(verdict, *path)
    return value if isinstance(value, Mapping) else {}


def hold(value: Hold) -> str:
    match value.kind:
        case "uniform":
            return f"{value.low_ms:g} to {value.high_ms:g} ms"
        case "exponential":
            return f"{value.low_ms:g} ms on average"
    return f"{value.low_ms:g} ms"


def blame(value: Blame) -> str:
    return _BLAME[value]


def ordered(verdict: Verdict) -> tuple[Finding, ...]:
    """All findings, those that make it a violation first; of these overlaps before what an overlap can come of."""
    return tuple(
        sorted(
            verdict.findings, key=lambda f: (verdict.require not in f.breaks, f.blame != "lock", f.kind != "overlap")
        )
    )


def breaking(verdict: Verdict) -> tuple[Finding, ...]:
    """The findings that make it a violation of what was required; the lock's before everybody else's."""
    return tuple(f for f in ordered(verdict) if verdict.require in f.breaks)


def headline(verdict: Verdict) -> tuple[str, str]:
    """The verdict as (`VALID` | `VIOLATION` | `UNKNOWN`, what follows the dash): what was found and who is to blame."""
    match verdict.verdict:
        case "violation":
            found = breaking(verdict) or verdict.findings
            if not found:
                return "VIOLATION", f"of --require {verdict.require}"
            first = printable(found[0].text).rstrip(".")
            more = len(found) - 1
            also = f" (and {plural(more, 'more finding')})" if more else ""
            return "VIOLATION", f"{blame(found[0].blame)}: {first}{also}"
        case "unknown":
            reasons = "; ".join(printable(r).rstrip(".") for r in verdict.unknown)
            return "UNKNOWN", reasons or "the run recorded too little to judge it"
    sections = figure(verdict, "exclusion", "sections")
    where = f" in {plural(sections, 'section')}" if isinstance(sections, int) else ""
    return "VALID", f"{_KEPT[verdict.require]}{where}"


def blame_line(verdict: Verdict) -> str | None:
    """`Overlaps: 0 blamed on the lock, 3 on a client that outlived its lease, 1 undecided.`; None if not judged."""
    by_blame = figures(verdict, "exclusion", "overlaps")
    if not by_blame:
        return None
    return (
        f"Overlaps: {count(by_blame.get('lock', 0))} blamed on the lock, {count(by_blame.get('client', 0))} on a "
        f"client that outlived its lease, {count(by_blame.get('undecided', 0))} undecided."
    )


def example(values: Mapping[str, object]) -> str:
    """One example of a finding as `client c3 · section 17 · at 12,034.5 ms`."""
    parts = []
    for name, value in values.items():
        label, unit = (name[:-3], " ms") if name.endswith("_ms") else (name, "")
        parts.append(f"{label.replace('_', ' ')} {_plain(value)}{unit}")
    return printable(" · ".join(parts))


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return " and ".join(_plain(v) for v in value)
    if isinstance(value, Mapping) and {"client", "section"} <= value.keys():
        text = f"{value['client']} in section {value['section']}"
        begin, end = value.get("start_ms"), value.get("end_ms")
        if begin is not None and end is not None:
            text += f" ({_plain(begin)} to {_plain(end)} ms)"
        return text + "".join(f", {name} {value[name]}" for name in ("value", "token") if value.get(name) is not None)
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{k} {_plain(v)}" for k, v in value.items()) + ")"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
