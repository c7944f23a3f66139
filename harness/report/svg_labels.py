"""Labels of a drawing, none of which hides another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from markupsafe import escape

from fencepost.text import printable

Anchor = Literal["start", "middle", "end"]
_LETTER: Final = 6.2
"""The width of a letter at 12 pixels, on the average."""
_ABOVE, _BELOW = 10, 3


class LabelSpot(NamedTuple):
    """Where the baseline of a text begins, has its middle, or ends."""

    x: float
    y: float
    anchor: Anchor = "start"


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class Labels:
    """The texts so far, as SVG in `drawn`."""

    def __init__(self) -> None:
        self.drawn: list[str] = []
        self._taken: list[_Box] = []

    def add(self, text: str, kind: str, places: Iterable[LabelSpot]) -> bool:
        """Put the text at the first of the places where it hides no other one; returns whether there was one. `kind`:
        its class in the style sheet."""
        wide = len(printable(text)) * _LETTER
        for place in places:
            left = place.x - {"start": 0, "middle": wide / 2, "end": wide}[place.anchor]
            box = _Box(left, place.y - _ABOVE, left + wide, place.y + _BELOW)
            if not any(box.meets(other) for other in self._taken):
                self._taken.append(box)
                self.drawn.append(
                    f'<rect class="behind" x="{pixels(left - 2)}" y="{pixels(box.top)}" width="{pixels(wide + 4)}" '
                    f'height="{pixels(box.bottom - box.top)}"/>{text_at(place, text, kind)}'
                )
                return True
        return False


def text_at(place: LabelSpot, text: str, kind: str) -> str:
    anchor = "" if place.anchor == "start" else f' text-anchor="{place.anchor}"'
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{pixels(place.x)}" y="{pixels(place.y)}"{anchor}>{escape(printable(text))}</text>'


def pixels(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
