"""The still pictures of a comparison, as inline SVG. Names of cells are foreign text, and escaped here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from markupsafe import Markup, escape

from fencepost.text import number, printable
from harness.campaign import wording
from harness.campaign.adding import total_by_name
from harness.campaign.aggregate import UNITS, Summary, Unit
from harness.campaign.durations import middle_ms
from harness.campaign.statistics import Rate
from harness.report.charts import Frame, decade, nice

COLOURS: Final = 6
"""The number of series with their own colour (`.s0` … in the style sheet)."""

_WIDTH, _HEIGHT = 570, 240
"""Of one of the small pictures that stand side by side."""

Series = tuple[str, Sequence[Summary]]


def legend(names: Sequence[str]) -> Markup:
    """What colour is what."""
    items = (f'<li><i class="s{i % COLOURS}"></i>{escape(printable(name))}</li>' for i, name in enumerate(names))
    return Markup('<ul class="legend">' + "".join(items) + "</ul>")  # noqa: S704  (names are escaped)


def rates(rows: Sequence[tuple[str, Unit, Rate]]) -> Markup:
    """One row a cell, or a pool of cells: the rate of violations as a dot, its 95 % interval as a whisker."""
    top = max((rate.high for _, _, rate in rows if rate.trials), default=1.0)
    top = min(1.0, nice(100 * top) / 100)
    left = min(470, 40 + max(len(name) for name, _, _ in rows) * 7)
    frame = Frame(1184, len(rows) * 22 + 58, "Rates of violations with 95 % intervals", left=left, right=270)

    def x(share: float) -> float:
        return frame.x0 + min(share / top, 1.0) * (frame.x1 - frame.x0)

    for i in range(5):
        frame.x_tick(x(top * i / 4), f"{100 * top * i / 4:.3g} %", line=True)
    for row, (name, unit, rate) in enumerate(rows):
        y = frame.y1 + 12 + 22 * row
        label = escape(printable(name))
        frame.parts.append(f'<text class="tick end" x="{frame.x0 - 10}" y="{y + 4}">{label}</text>')
        hit = "hit" if rate.events else "zero"
        if rate.trials:
            low, high = x(rate.low), x(rate.high)
            frame.parts.append(f'<line class="whisker {hit}" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>')
            for end in (low, high) if rate.events else (high,):
                frame.parts.append(
                    f'<line class="whisker {hit}" x1="{end:.1f}" x2="{end:.1f}" y1="{y - 4}" y2="{y + 4}"/>'
                )
            frame.parts.append(f'<circle class="{hit}" cx="{x(rate.share or 0):.1f}" cy="{y}" r="4"/>')
        text = escape(wording.count(rate, UNITS[unit]))
        frame.parts.append(f'<text class="tick" x="{frame.x1 + 14}" y="{y + 4}">{text}</text>')
    return frame.svg()


def latencies(series: Sequence[Series], label: str) -> Markup | None:
    """For each series the share of granted acquire calls that took at most so long; None without any."""
    pooled = []
    for index, (_, found) in enumerate(series):
        if counts := total_by_name([summary.total.acquire for summary in found]):
            pooled.append((index, np.array(sorted(counts), np.int64), counts))
    if not pooled:
        return None
    low = math.floor(min(bins[0] for _, bins, _ in pooled) / 100)
    high = max(math.ceil((max(bins[-1] for _, bins, _ in pooled) + 1) / 100), low + 1)
    frame = Frame(_WIDTH, _HEIGHT, label)

    def x(ms: float) -> float:
        share: float = (math.log10(ms) - low) / (high - low)
        return frame.x0 + share * (frame.x1 - frame.x0)

    for share in (0.5, 0.99):
        frame.y_tick(frame.y(share), f"{100 * share:.0f} %")
    for power in range(low, high + 1):
        frame.x_tick(x(10.0**power), decade(power), line=True)
    for index, bins, counts in pooled:
        reached = np.cumsum([counts[int(b)] for b in bins])
        points = [f"M{x(float(middle_ms(bins[:1])[0])):.1f},{frame.y0}"]
        points += [
            f"L{x(float(ms)):.1f},{frame.y(float(r / reached[-1])):.1f}"
            for ms, r in zip(middle_ms(bins), reached, strict=True)
        ]
        frame.parts.append(
            f'<path class="curve s{index % COLOURS}" d="{"".join(points)}L{frame.x1},{frame.y(1):.1f}"/>'
        )
    return frame.svg()


def against(series: Sequence[Series], axis: str, places: Mapping[str, float], label: str) -> Markup | None:
    """Acquisitions per second of each series against the values of an axis of numbers, like clients: the mean of all
    runs as a line, the single runs as dots. `places`: the axis's `Part.numbers`. None without any run."""
    at = sorted({places[s.cell.at[axis]] for _, found in series for s in found})
    top = nice(max((v for _, found in series for s in found for v in s.by_seed.values()), default=0.0))
    if not any(s.by_seed for _, found in series for s in found):
        return None
    frame = Frame(_WIDTH, _HEIGHT, label)

    def x(value: float) -> float:
        return frame.x0 + (at.index(value) + 0.5) / len(at) * (frame.x1 - frame.x0)

    for share in (0.25, 0.5, 0.75, 1.0):
        frame.y_tick(frame.y(share), number(top * share))
    for value in at:
        frame.x_tick(x(value), f"{value:g}")
    for index, (_, found) in enumerate(series):
        colour = f"s{index % COLOURS}"
        shift = (index - (len(series) - 1) / 2) * 5  # beside each other, not on top of each other
        known = sorted((places[s.cell.at[axis]], s) for s in found if s.per_second is not None)
        line = "L".join(f"{x(value) + shift:.1f},{frame.y((s.per_second or 0) / top):.1f}" for value, s in known)
        frame.parts.append(f'<path class="curve {colour}" d="M{line}"/>')
        frame.parts += [
            f'<circle class="{colour}" cx="{x(value) + shift:.1f}" cy="{frame.y(rate / top):.1f}" r="2.6"/>'
            for value, s in known
            for rate in s.by_seed.values()
        ]
    return frame.svg()
