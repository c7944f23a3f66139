"""The page's still pictures as inline SVG: sections over time, and distributions on a logarithmic axis.

Colours come from the page's style sheet by class, so that light and dark need no second picture. Everything that is
written into a picture is a number or a constant of this module, so nothing here can carry markup.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from fencepost.text import milliseconds
from harness.history.fault_windows import Window
from harness.history.recorded import Recorded

_LEFT: Final = 56
_RIGHT: Final = 26
_TOP: Final = 14
_BOTTOM: Final = 30


class Frame:
    """A plot area with its lines and labels: grows a list of SVG elements."""

    def __init__(self, width: int, height: int, label: str, left: int = _LEFT, right: int = _RIGHT) -> None:
        self.width, self.height, self.label = width, height, label
        self.x0, self.x1 = left, width - right
        self.y0, self.y1 = height - _BOTTOM, _TOP
        self.parts: list[str] = []

    def y(self, share: float) -> float:
        """Where this share of the height is, from the bottom."""
        return self.y0 - share * (self.y0 - self.y1)

    def y_tick(self, y: float, text: str) -> None:
        self.parts.append(f'<line class="grid" x1="{self.x0}" x2="{self.x1}" y1="{y:.1f}" y2="{y:.1f}"/>')
        self.parts.append(f'<text class="tick end" x="{self.x0 - 8}" y="{y + 4:.1f}">{text}</text>')

    def x_tick(self, x: float, text: str, line: bool = False) -> None:
        if line:
            self.parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{self.y0}" y2="{self.y1}"/>')
        self.parts.append(f'<text class="tick mid" x="{x:.1f}" y="{self.y0 + 20}">{text}</text>')

    def svg(self) -> Markup:
        axis = f'<line class="axis" x1="{self.x0}" x2="{self.x1}" y1="{self.y0}" y2="{self.y0}"/>'
        return Markup(  # noqa: S704  (built from numbers and constants only)
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{self.label}">'
            + "".join(self.parts)
            + axis
            + "</svg>"
        )


def span_ns(run: Recorded) -> tuple[int, int]:
    """The first and the last moment that a picture of this run must show; never empty, also for a crashed run."""
    start = run.timeline.start_ns
    ends = [t for t in (run.timeline.healed_ns, run.timeline.stop_ns, run.timeline.end_ns) if t is not None]
    ends += [event.done_ns for event in run.faults]
    if len(run.ops):
        ends.append(int(run.ops["complete_ns"].max()))
    if len(run.sections):
        ends.append(int(run.sections["end_ns"].max()))
    return start, max(ends, default=start + int(run.config.duration_ms * 1e6))


def throughput(run: Recorded, faults: Sequence[Window], width: int, height: int = 190) -> Markup | None:
    """Sections begun a second over the run, with the windows of the faults behind; None without sections."""
    if run.sections.empty:
        return None
    start_ns, end_ns = span_ns(run)
    total_s = (end_ns - start_ns) / 1e9
    seconds = (run.sections["start_ns"].to_numpy(dtype=np.int64) - start_ns) / 1e9
    bins = int(min(max(total_s / 0.25, 20), 240))
    counts, edges = np.histogram(seconds, bins=bins, range=(0.0, total_s))
    rates = counts / (total_s / bins)
    top = nice(float(rates.max()))
    frame = Frame(width, height, "Sections per second over the run", left=85, right=15)  # as the timeline above it

    def x(at_s: float) -> float:
        return frame.x0 + min(max(at_s / total_s, 0.0), 1.0) * (frame.x1 - frame.x0)

    for window in faults:
        until_ns = window.to_ns if window.to_ns is not None else end_ns
        left, right = x((window.from_ns - start_ns) / 1e9), x((until_ns - start_ns) / 1e9)
        kind = "fault unplanned" if window.event.unplanned else "fault"
        frame.parts.append(
            f'<rect class="{kind}" x="{left:.1f}" y="{frame.y1}" width="{max(right - left, 1):.1f}" '
            f'height="{frame.y0 - frame.y1}"/>'
        )
    for share in (0.5, 1.0):
        frame.y_tick(frame.y(share), f"{top * share:g}")
    path = [f"M{x(0):.1f},{frame.y0}"]
    for rate, left_s, right_s in zip(rates, edges[:-1], edges[1:], strict=True):
        y = frame.y(float(rate) / top)
        path.append(f"L{x(float(left_s)):.1f},{y:.1f}L{x(float(right_s)):.1f},{y:.1f}")
    line = "".join(path)
    frame.parts.append(f'<path class="area" d="{line}L{x(total_s):.1f},{frame.y0}Z"/>')
    frame.parts.append(f'<path class="curve" d="M{line[1:]}"/>')
    if run.timeline.healed_ns is not None:
        at = x((run.timeline.healed_ns - start_ns) / 1e9)
        frame.parts.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{frame.y0}" y2="{frame.y1}"/>')
    every = step(total_s / 10)
    for i in range(int(total_s / every) + 1):
        frame.x_tick(x(i * every), f"{i * every:g} s")
    return frame.svg()


def distribution(values_ms: npt.NDArray[np.float64], label: str, width: int = 570, height: int = 220) -> Markup | None:
    """The share of values at or below x, on a logarithmic axis in ms, with p50 and p99 marked; None without values."""
    values = np.sort(values_ms[np.isfinite(values_ms)])
    if not len(values):
        return None
    values = np.maximum(values, 0.001)
    low = math.floor(math.log10(values[0]))
    high = math.ceil(math.log10(values[-1]))
    high = max(high, low + 1)
    frame = Frame(width, height, label)

    def x(value: float) -> float:
        return frame.x0 + (math.log10(value) - low) / (high - low) * (frame.x1 - frame.x0)

    for share in (0.25, 0.5, 0.75, 1.0):
        frame.y_tick(frame.y(share), f"{share * 100:.0f} %")
    for power in range(low, high + 1):
        frame.x_tick(x(10.0**power), decade(power), line=True)
    # A few hundred points draw every curve of this size; the last value must be among them, for it is the longest.
    at = np.unique(np.linspace(0, len(values) - 1, 400).astype(int))
    steps = [f"M{x(float(values[0])):.1f},{frame.y0}"]
    steps += [f"L{x(float(values[i])):.1f},{frame.y((i + 1) / len(values)):.1f}" for i in at]
    frame.parts.append(f'<path class="curve" d="{"".join(steps)}L{frame.x1},{frame.y(1):.1f}"/>')
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        value = float(np.quantile(values, share))
        # Left and above of the middle, right and below of the upper end, the curve leaves room.
        upper = share > 0.9
        side, shift = ("start", 8) if x(value) < (frame.x1 - 90 if upper else frame.x0 + 100) else ("end", -8)
        drop = 18 if upper or side == "start" else -6
        frame.parts.append(f'<circle class="dot" cx="{x(value):.1f}" cy="{frame.y(share):.1f}" r="3.5"/>')
        frame.parts.append(
            f'<text class="note {side}" x="{x(value) + shift:.1f}" '
            f'y="{frame.y(share) + drop:.1f}">'
            f"{name} {milliseconds(value)}</text>"
        )
    return frame.svg()


def step(rough: float) -> float:
    """The next of 1, 2, 5, 10, … (and 0.1, 0.2, 0.5, …) that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(max(rough, 1e-3)))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)


def nice(top: float) -> float:
    """A round number not below `top`, close enough to leave little of the picture empty."""
    if top <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(top))
    return next(power * m for m in (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10) if power * m >= top * 0.999)


def decade(power: int) -> str:
    """10^power ms as `100 µs`, `10 ms` or `100 s`."""
    value, unit = ((power + 3, "µs"), (power, "ms"), (power - 3, "s"))[0 if power < 0 else 1 if power < 3 else 2]
    return f"{10**value:g} {unit}"
