"""A campaign that grows: cells and seeds are added to it, and what it has stays."""

from __future__ import annotations

import msgspec

from harness.campaign.grid import Grid


def grown(begun: Grid, asked: Grid) -> Grid | None:
    """The first grid with the parts, cells and seeds of the second one added; None if they differ in something that
    both have."""
    if begun.first_seed != asked.first_seed or begun.name != asked.name:
        return None
    parts = {part.title: part for part in begun.parts}
    for part in asked.parts:
        there = parts.get(part.title, part)
        cells = {cell.name: cell for cell in there.cells}
        alike = msgspec.structs.replace(there, cells=(), seeds=1) == msgspec.structs.replace(part, cells=(), seeds=1)
        if not alike or any(cells.get(cell.name, cell) != cell for cell in part.cells):
            return None
        cells |= {cell.name: cell for cell in part.cells}
        parts[part.title] = msgspec.structs.replace(
            there, cells=tuple(cells.values()), seeds=max(there.seeds, part.seeds)
        )
    return msgspec.structs.replace(begun, parts=tuple(parts.values()))
