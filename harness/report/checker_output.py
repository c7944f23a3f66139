"""What the checkers offer of their figures, in the order in which reports show it.

A report knows no checker: it lays out the rows, tiles and parts that `harness.figures.CheckerFigures` describes. Texts
may quote foreign programs, so they are made printable here, once for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fencepost.text import printable
from harness.figures import Part, Row, Table, Tile
from harness.verdict import Verdict


def rows(verdict: Verdict) -> list[Row]:
    found = (row for own in verdict.figures.values() for row in own.rows())
    return sorted((replace(row, text=printable(row.text)) for row in found), key=lambda row: row.order)


def tiles(verdict: Verdict) -> list[Tile]:
    found = (tile for own in verdict.figures.values() for tile in own.tiles())
    return sorted(
        (replace(tile, value=printable(tile.value), note=printable(tile.note)) for tile in found),
        key=lambda tile: tile.order,
    )


def parts(verdict: Verdict) -> list[Part]:
    """One for each heading."""
    found = sorted((part for own in verdict.figures.values() for part in own.parts()), key=lambda part: part.order)
    by_heading: dict[str, list[Part]] = {}
    for part in found:
        by_heading.setdefault(part.heading, []).append(part)
    return [_joined(same) for same in by_heading.values()]


def _joined(parts: list[Part]) -> Part:
    return Part(
        heading=parts[0].heading,
        order=parts[0].order,
        hint=_text(part.hint for part in parts),
        sentences=tuple(printable(sentence) for part in parts for sentence in part.sentences),
        pairs=tuple((printable(name), printable(value)) for part in parts for name, value in part.pairs),
        tables=tuple(_printable(table) for part in parts for table in part.tables),
        note=_text(part.note for part in parts),
    )


def _text(texts: Iterable[str]) -> str:
    return " ".join(printable(text) for text in dict.fromkeys(texts) if text)


def _printable(table: Table) -> Table:
    rows = ((printable(name), tuple(map(printable, cells))) for name, cells in table.rows)
    return replace(table, rows=tuple(rows))
