"""The answer to a part of a campaign as tables of two axes: a field for each configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from fencepost.text import MISSING, milliseconds, number, plural, printable
from harness.campaign import wording
from harness.campaign.adding import is_watched, left_behind_of
from harness.campaign.aggregate import Summary
from harness.campaign.document import DataTable, TableField
from harness.campaign.durations import quantiles
from harness.campaign.grid import Part


def matrices(part: Part, found: Sequence[Summary]) -> Iterator[DataTable]:
    """The answer to the question of this part."""
    return _matrices(part, found, _field)


def left_behind(part: Part, found: Sequence[Summary]) -> Iterator[DataTable]:
    """What a lock leaves behind; none where no node was watched."""
    if part.kind == "safety" and any(is_watched(s.total) for s in found):
        yield from _matrices(part, found, _left_field)


def _matrices(part: Part, found: Sequence[Summary], field: Callable[[Summary], TableField]) -> Iterator[DataTable]:
    """Rows are the values of the part's first axis, columns all combinations of the next ones, a table for each value
    of the last where there are many."""
    axes = part.axes
    if not axes or any(cell.at.keys() != axes.keys() for cell in part.cells):
        yield DataTable(("", "all"), [(printable(s.cell.name), field(s)) for s in found], "matrix")
        return
    first, *across = axes
    many = len(across) > 2 or (len(across) == 2 and len(axes[across[0]]) * len(axes[across[1]]) > 6)
    apart = across.pop() if many else None
    fields = {tuple(s.cell.at[axis] for axis in axes): field(s) for s in found}
    columns = list(product(*(axes[axis] for axis in across)))
    heads = [printable(" · ".join(column)) or ("rate" if part.kind == "safety" else "cost") for column in columns]
    for picked in axes[apart] if apart else [""]:
        last = (picked,) if apart else ()
        rows = [
            [printable(value), *(fields.get((value, *column, *last), "") for column in columns)]
            for value in axes[first]
        ]
        yield DataTable([printable(first), *heads], rows, "matrix", printable(picked))


def _field(summary: Summary) -> TableField:
    if not sum(summary.verdicts.values()):
        return TableField(MISSING, "no run yet")
    if summary.part.kind == "cost":
        value, acquire = f"{number(summary.per_second)}/s", quantiles(summary.total.acquire)
        tails = f"{milliseconds(acquire['p50'])}, p99 {milliseconds(acquire['p99'])}"
        return TableField(value, f"acquire p50 {tails}{_too_disturbed(summary)}")
    _, rate = summary.main_rate
    if not rate.trials:
        return TableField(MISSING, "nothing to count yet")
    note = f"{wording.interval(rate)}{_too_disturbed(summary)}"
    return TableField(wording.count(rate), note, "bad" if rate.events else "")


def _too_disturbed(summary: Summary) -> str:
    runs = sum(summary.verdicts.values())
    return f"; {len(summary.disturbed):,} of {plural(runs, 'run')} too disturbed" if summary.disturbed else ""


def _left_field(summary: Summary) -> TableField:
    """The first of what is left behind, and below it what else there was any of."""
    (first, *others) = left_behind_of(summary.total)
    return TableField(first, ", ".join(text for text in others if not text.startswith("0 ")))
