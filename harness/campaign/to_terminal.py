"""A table of a document at the terminal."""

from __future__ import annotations

from rich.table import Table

from harness.campaign import document


def at_terminal(shown: document.DataTable) -> Table:
    """Its texts; notes, links and pictures are for the page."""
    table = Table(box=None, pad_edge=False)
    for head in shown.heads:
        table.add_column(head, overflow="fold")
    for row in shown.rows:
        table.add_row(*(cell.text if isinstance(cell, document.TableField) else "".join(cell) for cell in row))
    return table
