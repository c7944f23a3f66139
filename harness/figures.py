"""The figures of a checker, and how reports show them.

A checker declares its figures as its own frozen struct, next to `check`. The struct also says how to show them: as
rows of the summary, tiles and parts of the page, cells of `fencepost list` and totals of a campaign. Reports only
lay out what they are offered, so a new checker shows up in all of them without an edit elsewhere. Everything here is
optional: a struct that offers nothing is kept in `verdict.json` and shown nowhere.

`order` sorts what several checkers offer, smallest first. The checkers that come along use 10 to 90.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

Tone = Literal["", "warn", "bad"]
"""`bad`: it breaks a promise. `warn`: it is worth a look."""

LAST: Final = 100

KEYS_ON_NODES: Final = "The keys on the nodes"
DATA: Final = "The data behind the lock"
"""Headings of the page that several checkers share."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the summary in the terminal. `label`: up to 8 characters. `is_input`: it says what was done to the lock,
    not what was seen; then it stands among the settings, and under the page's "Faults"."""

    label: str
    text: str
    order: int = LAST
    is_input: bool = False


@dataclass(frozen=True, slots=True)
class Tile:
    """A key figure at the top of the page."""

    name: str
    value: str
    note: str = ""
    tone: Tone = ""
    order: int = LAST


@dataclass(frozen=True, slots=True)
class Table:
    """`rows`: a name and a cell for each column. `text_columns`: they hold words, not numbers. `folded`: the
    title that opens the table; empty for one that is always open."""

    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    text_columns: frozenset[str] = frozenset()
    folded: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the page. Parts with the same heading become one: hints, sentences, `pairs` (a name and a value each)
    as one table, open tables, notes, folded tables."""

    heading: str
    order: int = LAST
    hint: str = ""
    sentences: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    note: str = ""


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of `fencepost list` and what it says of this run. `legend`: what the column means, if its name does not
    say it."""

    column: str
    text: str
    legend: str = ""
    order: int = LAST


class CheckerFigures(msgspec.Struct, frozen=True):
    """The base of every checker's figures. The fields are what `verdict.json` keeps: JSON values, units in the names.
    A field is None where the run did not record enough to know it, and its comment says when that is."""

    def rows(self) -> Iterable[Row]:
        """For the summary."""
        return ()

    def tiles(self) -> Iterable[Tile]:
        """For the page."""
        return ()

    def parts(self) -> Iterable[Part]:
        """For the page. Unless a checker says otherwise: its rows, if it has no tiles."""
        rows = [row for row in self.rows() if not row.is_input]
        if rows and not tuple(self.tiles()):
            yield Part("Other figures", pairs=tuple((row.label, row.text) for row in rows))

    def cells(self) -> Iterable[Cell]:
        """For `fencepost list`."""
        return ()

    def totals(self) -> Mapping[str, int]:
        """Counts that a campaign adds up over the runs of a configuration, by name."""
        return {}


class KeyFigures(CheckerFigures, frozen=True):
    """Figures about keys: on the page, their rows are sentences among those about the keys on the nodes."""

    def parts(self) -> Iterable[Part]:
        for row in self.rows():
            yield Part(KEYS_ON_NODES, order=row.order, sentences=(row.text,))
