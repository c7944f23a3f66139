"""The answer to a part of a campaign as tables of two axes: a box for each configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from fencepost.text import MISSING, milliseconds, number, plural, printable
from harness.campaign import wording
from harness.campaign.adding import is_watched, left_behind_of
from harness.campaign.aggregate import Summary
from harness.campaign.durations import quantiles
from harness.campaign.grid import Part


@dataclass(frozen=True, slots=True)
class Box:
    """One field of a matrix: the cell's summary and its texts. `tone`: `bad` for a violation, else empty."""

    summary: Summary
    value: str
    note: str
    tone: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows are the values of the part's first axis, columns all combinations of the next ones, a matrix for each value
    of the last where there are many."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Box | None, ...]], ...]


def matrices(part: Part, found: Sequence[Summary]) -> Iterator[Matrix]:
    """The answer to the question of this part."""
    return _matrices(part, found, _box)


def left_behind(part: Part, found: Sequence[Summary]) -> Iterator[Matrix]:
    """What a lock leaves behind; none where no node was watched."""
    if part.kind == "safety" and any(is_watched(s.total) for s in found):
        yield from _matrices(part, found, _left_box)


def _matrices(part: Part, found: Sequence[Summary], box: Callable[[Summary], Box]) -> Iterator[Matrix]:
    axes = part.axes
    if not axes or any(cell.at.keys() != axes.keys() for cell in part.cells):
        yield Matrix("", "", ("all",), tuple((printable(s.cell.name), (box(s),)) for s in found))
        return
    first, *others = axes
    apart = (
        others[-1:] if len(others) > 2 or (len(others) == 2 and len(axes[others[0]]) * len(axes[others[1]]) > 6) else []
    )
    across = [axis for axis in others if axis not in apart]
    by_place = {tuple(s.cell.at[axis] for axis in axes): s for s in found}
    for picked in axes[apart[0]] if apart else [""]:
        columns = list(product(*(axes[axis] for axis in across)))
        rows: list[tuple[str, tuple[Box | None, ...]]] = []
        for value in axes[first]:
            boxes: list[Box | None] = []
            for column in columns:
                place = {
                    first: value,
                    **dict(zip(across, column, strict=True)),
                    **({apart[0]: picked} if apart else {}),
                }
                summary = by_place.get(tuple(place[axis] for axis in axes))
                boxes.append(box(summary) if summary else None)
            rows.append((printable(value), tuple(boxes)))
        heads = tuple(
            printable(" · ".join(column)) or ("rate" if part.kind == "safety" else "cost") for column in columns
        )
        yield Matrix(printable(picked), printable(first), heads, tuple(rows))


def _box(summary: Summary) -> Box:
    if not sum(summary.verdicts.values()):
        return Box(summary, MISSING, "no run yet", "")
    if summary.part.kind == "cost":
        value, acquire = f"{number(summary.per_second)}/s", quantiles(summary.total.acquire)
        tails = f"{milliseconds(acquire['p50'])}, p99 {milliseconds(acquire['p99'])}"
        return Box(summary, value, f"acquire p50 {tails}{_too_disturbed(summary)}", "")
    _, rate = summary.main_rate
    if not rate.trials:
        return Box(summary, MISSING, "nothing to count yet", "")
    note = f"{wording.interval(rate)}{_too_disturbed(summary)}"
    return Box(summary, wording.count(rate), note, "bad" if rate.events else "")


def _too_disturbed(summary: Summary) -> str:
    runs = sum(summary.verdicts.values())
    return f"; {len(summary.disturbed):,} of {plural(runs, 'run')} too disturbed" if summary.disturbed else ""


def _left_box(summary: Summary) -> Box:
    """The first of what is left behind, and below it what else there was any of."""
    (first, *others) = left_behind_of(summary.total)
    return Box(summary, first, ", ".join(text for text in others if not text.startswith("0 ")), "")
