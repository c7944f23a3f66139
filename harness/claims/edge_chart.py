"""The picture of an edge: at each point of a sweep the rate with its 95 % interval, and the predicted edge."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup, escape

from harness.campaign.statistics import Rate
from harness.claims.edges import Seen
from harness.report.charts import Frame

_MARGIN: Final = 0.06
"""How far the axis goes beyond the first and the last point, as a share of their distance."""


def draw(seen: Seen) -> Markup:
    """The points are where their numbers are, so the steps need not be equal."""
    edge = seen.edge
    places = [*seen.rates, edge.predicted]
    margin = _MARGIN * (max(places) - min(places))
    low, high = min(places) - margin, max(places) + margin
    frame = Frame(780, 240, f"Rates on both sides of the edge {edge.name}")

    def x(at: float) -> float:
        return frame.x0 + (at - low) / (high - low) * (frame.x1 - frame.x0)

    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        frame.y_tick(frame.y(share), f"{100 * share:.0f} %")
    at = x(edge.predicted)
    frame.parts.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{frame.y0}" y2="{frame.y1}"/>')
    for number, (point, rate) in enumerate(seen.rates.items()):
        label = f"{point:g}" if number + 1 < len(seen.rates) else f"{point:g} {edge.unit}"
        frame.x_tick(x(point), str(escape(label)))
        if rate.trials:
            frame.parts += _whisker(x(point), rate, *map(frame.y, (rate.low, rate.high, rate.share or 0)))
    return frame.svg()


def _whisker(x: float, rate: Rate, low: float, high: float, middle: float) -> list[str]:
    kind = "hit" if rate.events else "zero"
    ends = (low, high) if rate.events else (high,)
    return [
        f'<line class="whisker {kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>',
        *(
            f'<line class="whisker {kind}" x1="{x - 4:.1f}" x2="{x + 4:.1f}" y1="{end:.1f}" y2="{end:.1f}"/>'
            for end in ends
        ),
        f'<circle class="{kind}" cx="{x:.1f}" cy="{middle:.1f}" r="4"/>',
    ]
