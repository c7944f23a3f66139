"""Figures that say how they are measured, how those of several runs add up, and how they are shown.

A figure is declared once, as an annotation of its field; tables, CSV and JSON are made of the declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec
import numpy as np

from fencepost.text import MISSING, count

S = TypeVar("S", bound=msgspec.Struct)
Adds = Callable[[Sequence[Any]], Any]
"""What the figure of several runs is; it gets that of each run, None where it is not known."""


def total(each: Sequence[Any]) -> Any:
    return sum(each)


def total_if_known(each: Sequence[Any]) -> Any:
    """Of the runs that know; None where none does."""
    return sum(known) if (known := _known(each)) else None


def total_if_all_know(each: Sequence[Any]) -> Any:
    """None where a run does not know."""
    return None if None in each or not each else sum(each)


def largest(each: Sequence[Any]) -> Any:
    """Of structs, the largest of each number in them."""
    known = _known(each)
    if not known or not isinstance(known[0], msgspec.Struct):
        return max(known, default=None)
    names = known[0].__struct_fields__
    return type(known[0])(**{name: largest([getattr(one, name) for one in known]) for name in names})


def total_by_name(known: Sequence[Mapping[Any, int]]) -> dict[Any, int]:
    names = dict.fromkeys(chain.from_iterable(known))
    return {name: sum(one.get(name, 0) for one in known) for name in names}


def median_by_name(each: Sequence[Mapping[str, float] | None]) -> dict[str, float] | None:
    known = _known(each)
    names = dict.fromkeys(chain.from_iterable(known))
    return {name: float(np.median([one[name] for one in known if name in one])) for name in names} or None


def all_of_them(known: Sequence[Iterable[Any]]) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(known))


def unadded(_: Sequence[Any]) -> None:
    """It says something of one run only."""


@dataclass(frozen=True, slots=True)
class Figure:
    """`of`: the figure of a run's record. `label`: of its row, and `column`: of its column in CSV; without one, it has
    none. `adds`: how those of several runs add up. `text`: in its row. `per`: the figure by which it is divided, for a
    rate. `among`: the figure of which it is a part, whose name ends in the word for that. `rows`, `columns`: where it
    has several. `left_behind`: in words, if a lock leaves it behind. `hit`: the figure that says how many of these an
    overlap followed."""

    of: Callable[[Any], Any]
    label: str = ""
    column: str = ""
    adds: Adds = total
    text: Callable[[Any], str] = count
    per: str = ""
    among: str = ""
    rows: Callable[[Any], Mapping[str, str]] | None = None
    columns: Callable[[Any], Mapping[str, object]] | None = None
    left_behind: Callable[[Any], str] | None = None
    hit: str = ""


def declared(struct: type[msgspec.Struct]) -> dict[str, Figure]:
    """By the name of its field."""
    return {
        field.name: note
        for field in msgspec.structs.fields(struct)
        if get_origin(field.type) is Annotated
        for note in get_args(field.type)[1:]
        if isinstance(note, Figure)
    }


def measured(struct: type[S], seen: object) -> S:
    """All figures of a run. `seen`: what each is measured of."""
    return struct(**{name: figure.of(seen) for name, figure in declared(struct).items()})


def add_up(struct: type[S], runs: Sequence[S]) -> S:
    """The figures of all these runs together."""
    return struct(**{name: of.adds([getattr(run, name) for run in runs]) for name, of in declared(struct).items()})


def _known(each: Sequence[Any]) -> list[Any]:
    return [one for one in each if one is not None]


def _value(of: msgspec.Struct, name: str, figure: Figure) -> Any:
    value = getattr(of, name)
    if not figure.per:
        return value
    by = getattr(of, figure.per)
    return value / by if by and value is not None else None


def rows_of(of: msgspec.Struct) -> Iterator[tuple[str, str]]:
    """A label and a text for each figure that has them."""
    for name, figure in declared(type(of)).items():
        value = _value(of, name, figure)
        if figure.rows is not None:
            yield from figure.rows(value).items()
        elif figure.label:
            text = MISSING if value is None else figure.text(value)
            yield figure.label, f"{text}{_among(of, figure)}"


def _among(of: msgspec.Struct, figure: Figure) -> str:
    """` of 30 planned`."""
    word = figure.among.rpartition("_")[2]
    return f" of {figure.text(getattr(of, figure.among))} {word}" if figure.among else ""


def columns_of(of: msgspec.Struct) -> dict[str, object]:
    """Numbers to compute with."""
    row: dict[str, object] = {}
    for name, figure in declared(type(of)).items():
        value = _value(of, name, figure)
        if figure.columns is not None:
            row |= figure.columns(value)
        elif figure.column:
            row[figure.column] = value
    return row


def left_behind_of(of: msgspec.Struct) -> list[str]:
    """What a lock leaves behind, in a few words: the first figure of it, and what there is of the others."""
    first, *others = (
        (getattr(of, name), figure.left_behind) for name, figure in declared(type(of)).items() if figure.left_behind
    )
    return [MISSING if first[0] is None else first[1](first[0]), *(text(value) for value, text in others if value)]


def hits_of(of: msgspec.Struct, name: str) -> tuple[int, int] | None:
    """How many of these an overlap followed, and how many there were; None where that was not counted."""
    of_all = getattr(of, name)
    return None if of_all is None else (getattr(of, declared(type(of))[name].hit) or 0, of_all)


def is_watched(of: msgspec.Struct) -> bool:
    """Whether anything is known of what was left behind."""
    return left_behind_of(of)[0] != MISSING
