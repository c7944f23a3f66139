"""`index.html` of the nights: tonight's verdicts, what changed since the night before, and the trend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from fencepost.text import MISSING, milliseconds, number, plural, printable
from harness.campaign import wording
from harness.campaign.statistics import rate
from harness.nightly.changes import changes
from harness.nightly.nights import Night, Played
from harness.report.html import render

_NIGHTS_SHOWN: Final = 30
_WIDTH, _HEIGHT = 120, 26


def headline(night: Night) -> str:
    """One sentence."""
    controls = [played for played in night.played if played.kind == "control"]
    missed = [played.lock for played in controls if not played.is_as_it_must_be]
    blamed = [played.lock for played in night.played if played.kind == "correct" and not played.is_as_it_must_be]
    libraries = {played.lock for played in night.played if played.kind == "library"}
    broken = {played.lock for played in night.played if played.kind == "library" and played.violations}
    many = "library" if len(libraries) == 1 else "libraries"
    said = [f"not caught: {', '.join(missed)}" if missed else f"{plural(len(controls), 'control')} caught"]
    if blamed:
        said.append(f"blamed although correct: {', '.join(blamed)}")
    said.append(f"violations in {len(broken)} of {len(libraries)} {many}")
    return "; ".join([*said, f"{plural(night.missing, 'run')} missing"] if night.missing else said)


def render_page(nights: Sequence[Night]) -> str:
    """`nights`: at least one; the last one is tonight."""
    tonight, shown = nights[-1], nights[-_NIGHTS_SHOWN:]
    places = list(dict.fromkeys((p.lock, p.cluster) for night in reversed(shown) for p in night.played))
    return render(
        "nightly.html.j2",
        tonight=tonight,
        headline=headline(tonight),
        tone={"red": "violation", "unfinished": "unknown", "green": "valid"}[tonight.colour],
        changes=changes(nights),
        first=len(nights) == 1,
        rows=[_row(played) for played in tonight.played],
        dates=[night.date for night in shown],
        trend=[_trend(place, shown) for place in places],
    )


def _row(played: Played) -> dict[str, Any]:
    return {
        "lock": printable(played.lock),
        "cluster": played.cluster,
        "kind": {"library": "library", "correct": "must not be blamed", "control": "must be caught"}[played.kind],
        "result": wording.counted(rate(played.violations, played.runs)),
        "tone": "bad" if not played.is_as_it_must_be else "",
        "rate": number(played.sections_per_s),
        "detected": milliseconds(played.detected_ms),
    }


def _trend(place: tuple[str, str], nights: Sequence[Night]) -> dict[str, Any]:
    there = [next((p for p in night.played if (p.lock, p.cluster) == place), None) for night in nights]
    return {
        "lock": printable(place[0]),
        "cluster": place[1],
        "violations": [f"{p.violations}/{p.runs}" if p else MISSING for p in there][-7:],
        "share": _line([p.violations / p.runs if p and p.runs else None for p in there], "Share of violations", 1.0),
        "throughput": _line([p.sections_per_s if p else None for p in there], "Sections per second"),
        "detected": _line([p.detected_ms if p else None for p in there], "Time to the first finding"),
    }


def _line(values: Sequence[float | None], label: str, top: float | None = None) -> Markup:
    """A small curve from zero to `top`, or to the largest value; a night without a value has no point."""
    top = top or max((value for value in values if value is not None), default=0) or 1
    step = (_WIDTH - 6) / max(len(values) - 1, 1)
    points = [
        (3 + step * i, _HEIGHT - 3 - value / top * (_HEIGHT - 6)) for i, value in enumerate(values) if value is not None
    ]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in points)
    return Markup(  # noqa: S704  (built from numbers and constants only)
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        f'<polyline class="curve" points="{drawn}"/>{dots}</svg>'
    )
