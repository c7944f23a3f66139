"""The page of the nights: tonight's verdicts, what changed since the night before, and the trend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import pandas as pd
from markupsafe import Markup

from fencepost.text import MISSING, milliseconds, number, plural
from harness.campaign import wording
from harness.campaign.document import Banner, Bullets, DataTable, Heading, Paragraph, StudyDocument, TableField
from harness.campaign.statistics import rate
from harness.campaign.study import Played
from harness.nightly.nights import LockNight, Night, changes

_NIGHTS_SHOWN: Final = 30
_WIDTH, _HEIGHT = 120, 26
_TONES: Final = {"red": "violation", "unfinished": "unknown", "green": "valid"}
_TONIGHT: Final = ("lock", "servers", "", "runs with a violation", "sections/s", "first finding after")
_RATES: Final = (
    f"{wording.METHOD} A seed that failed the night before is played again, so a lock that failed then is shown with a "
    "higher rate than new seeds would give."
)
_TREND: Final = ("lock", "servers", "violations", "share of violations", "sections/s", "first finding after")


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


def document_of(played: Played, nights: Sequence[Night]) -> StudyDocument | None:
    """`nights`: at least one; the last one is tonight. None before the first run of it."""
    tonight, shown = nights[-1], nights[-_NIGHTS_SHOWN:]
    if not tonight.played:
        return None
    places = list(dict.fromkeys((p.lock, p.cluster) for night in reversed(shown) for p in night.played))
    news = changes(nights) or ["This is the first night." if len(nights) == 1 else "Nothing has changed."]
    left_out = [f"{cell}: {error}" for cell, error in played.cannot.items()]
    if tonight.missing:
        left_out.append(f"{plural(tonight.missing, 'run')} missing")
    return played.document(
        name="nightly",
        title=f"The night of {tonight.date}",
        left_out=left_out,
        blocks=[
            Banner(tonight.colour.upper(), f"{headline(tonight)}.", _TONES[tonight.colour]),
            Paragraph(
                "A night is red if a lock that is broken on purpose was not caught, or a correct one was blamed. A "
                "library that breaks its promise is a result and does not make it red; the same seed is played again "
                "first the next night."
            ),
            Heading("Since the night before"),
            Bullets(news),
            Heading("Tonight"),
            DataTable(_TONIGHT, [_row(each) for each in tonight.played]),
            Paragraph(_RATES, "hint"),
            Heading("Night by night"),
            Paragraph(
                f"From {shown[0].date} to {shown[-1].date}. Each curve begins at zero; a lock is not played every "
                "night. The numbers are runs with a violation of all runs, in the last seven nights.",
                "hint",
            ),
            DataTable(_TREND, [_trend(place, shown) for place in places], "wide"),
        ],
        numbers={"night": tonight},
        tables={"nightly": pd.DataFrame([msgspec.to_builtins(each) for each in tonight.played])},
    )


def _row(played: LockNight) -> list[str | TableField]:
    kind = {"library": "library", "correct": "must not be blamed", "control": "must be caught"}[played.kind]
    result = wording.counted(rate(played.violations, played.runs))
    return [
        played.lock,
        played.cluster,
        kind,
        result if played.is_as_it_must_be else TableField(result, tone="bad"),
        number(played.sections_per_s),
        milliseconds(played.detected_ms),
    ]


def _trend(place: tuple[str, str], nights: Sequence[Night]) -> list[str | TableField]:
    there = [next((p for p in night.played if (p.lock, p.cluster) == place), None) for night in nights]
    last = next(p for p in reversed(there) if p)
    shares = _line([p.violations / p.runs if p and p.runs else None for p in there], "Share of violations", 1.0)
    rates = _line([p.sections_per_s if p else None for p in there], "Sections per second")
    found = _line([p.detected_ms if p else None for p in there], "Time to the first finding")
    return [
        place[0],
        place[1],
        "  ".join([f"{p.violations}/{p.runs}" if p else MISSING for p in there][-7:]),
        TableField(f"{last.violations}/{last.runs}", picture=shares),
        TableField(number(last.sections_per_s), picture=rates),
        TableField(milliseconds(last.detected_ms), picture=found),
    ]


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
