"""From records to numbers: what a piece of a log becomes as soon as it is decoded.

A number that is missing is `MISSING` in a column of integers and NaN in one of floats; a name that is missing has the
code -1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Any, Final, Literal, get_args, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt

MISSING: Final = -(2**63)
Kind = Literal["name", "int", "float", "bool"]
Bounds = tuple[float, float]
_ABSENT: Final[dict[Kind, Any]] = {
    "name": np.int32(-1),
    "int": np.int64(MISSING),
    "float": np.float64("nan"),
    "bool": np.False_,
}
Array = npt.NDArray[Any]


class NameNumbers(dict[str | None, int]):
    """Numbers names from 0 in the order of their first appearance; None has the number -1."""

    def __init__(self) -> None:
        super().__init__({None: -1})

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self) - 1
        return number

    @property
    def listed(self) -> list[str]:
        return [name for name in self if name is not None]


@dataclass(frozen=True, slots=True)
class Piece:
    """So many rows of some columns. Those in which every value is missing, or False, may be left out."""

    rows: int
    columns: dict[str, Array]

    def __len__(self) -> int:
        return self.rows


@cache
def kinds_of(record: type[msgspec.Struct]) -> dict[str, Kind]:
    """What is in each field of a record."""
    found: dict[str, Kind] = {}
    for name, hint in get_type_hints(record).items():
        types = set(get_args(hint)) - {NoneType} if NoneType in get_args(hint) else {hint}
        kinds: dict[type, Kind] = {bool: "bool", int: "int", float: "float"}
        found[name] = next((kinds[one] for one in types if one in kinds), "name")
    return found


@cache
def bounds_of(record: type[msgspec.Struct]) -> dict[str, Bounds]:
    """The smallest and the largest number that each field may have; infinite for one without bounds."""
    found: dict[str, Bounds] = {}
    for name, hint in get_type_hints(record, include_extras=True).items():
        metas = [
            note for one in (hint, *get_args(hint)) for note in get_args(one)[1:] if isinstance(note, msgspec.Meta)
        ]
        low = max((meta.ge for meta in metas if meta.ge is not None), default=-math.inf)
        high = min((meta.le for meta in metas if meta.le is not None), default=math.inf)
        found[name] = low, high
    return found


def absent(kind: Kind, rows: int) -> Array:
    """A column without a value."""
    return np.full(rows, _ABSENT[kind])


def piece_of(records: Sequence[msgspec.Struct], kinds: Mapping[str, Kind], names: Mapping[str, NameNumbers]) -> Piece:
    """The columns of some records. `names`: the numbers of the names in each column of names."""
    columns = {}
    for name, kind in kinds.items():
        nothing = False if kind == "bool" else None
        values = list(map(attrgetter(name), records))
        if values.count(nothing) == len(values):
            continue
        if kind == "name":
            number = names[name]
            values = [number[value] for value in values]
        else:
            values = [_ABSENT[kind] if value is None else value for value in values]
        columns[name] = np.array(values, _ABSENT[kind].dtype)
    return Piece(len(records), columns)
