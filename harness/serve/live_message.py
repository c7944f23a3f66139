"""What a live page is sent, several times a second: values for the places that the page has.

All words are made here; the page's script puts them in as text and draws the chart, and knows no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text in a row. `href`: where it leads; `tone`: the class that gives it its colour."""

    text: str
    href: str = ""
    tone: str = ""


class Chart(msgspec.Struct, frozen=True):
    """`total_s`: how long the run will take. `sections`: those entered in each `bin_s` seconds so far. `faults`: when
    each was injected and healed, in s since the start of the load, and what it is; None while it is in force."""

    total_s: float
    bin_s: int
    sections: Sequence[int]
    faults: Sequence[tuple[float, float | None, str]]


class LiveMessage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`texts`: by place. `share`: of the whole that is done, from 0 to 1. `rows`: by place, of a table or a list."""

    texts: Mapping[str, str]
    share: float
    rows: Mapping[str, Sequence[Sequence[Cell]]] = {}
    chart: Chart | None = None


class End(msgspec.Struct, frozen=True):
    """What became of it. `word`: its verdict, say; `says`: what follows; `link`: where all of it is shown."""

    word: Cell
    says: str
    link: Cell
