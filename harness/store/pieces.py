"""From records to numbers: what a piece of a log becomes as soon as it is decoded.

Only one piece exists as Python objects at a time. This module needs numpy and msgspec and nothing else, so that a
process that only decodes starts quickly (`harness.store.decoding`).

A number that is missing is `MISSING` in a column of integers and NaN in one of floats; a name that is missing has the
code -1. Records are decoded into rows that have these values by default, so most columns are filled without a look at
each value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import NoneType
from typing import Any, Final, Literal, get_args, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt

MISSING: Final = -(2**63)
Kind = Literal["name", "int", "float", "bool"]
Array = npt.NDArray[Any]
Piece = dict[str, Array]
"""Columns by name; those in which every value is missing, or False, are left out."""


class Names(dict[str | None, int]):
    """Numbers names from 0 in the order of their first appearance; None has the number -1."""

    def __init__(self) -> None:
        super().__init__({None: -1})

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self) - 1
        return number

    @property
    def listed(self) -> list[str]:
        return [name for name in self if name is not None]


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
def row_of(record: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The same fields as the record's, for decoding; a number that is not there is `MISSING` or NaN."""
    absent = {"int": MISSING, "float": np.nan}
    hints, kinds = get_type_hints(record, include_extras=True), kinds_of(record)
    fields = []
    for field in msgspec.structs.fields(record):
        default = absent.get(kinds[field.name]) if field.default is None else field.default
        one: tuple[str, Any] | tuple[str, Any, Any] = (field.name, hints[field.name])
        fields.append(one if default is msgspec.NODEFAULT else (*one, default))
    return msgspec.defstruct(f"{record.__name__}Row", fields, gc=False)


def piece_of(records: Sequence[msgspec.Struct], kinds: dict[str, Kind], names: dict[str, Names]) -> Piece:
    """The columns of some records (or rows). `names`: the numbers of the names in each column of names."""
    piece = {}
    for name, kind in kinds.items():
        values = _values_of(name)(records)
        first = values[0]
        if (first is None or first is False or first != first or first == MISSING) and values.count(first) == len(
            values
        ):
            continue
        if kind == "name":
            number = names[name].__getitem__
            codes = np.fromiter(map(number, values), np.int32, len(values))
            piece[name] = codes.astype(np.min_scalar_type(-len(names[name]) - 1))
        elif kind == "int":
            piece[name] = _numbers(values, np.int64, MISSING)
        elif kind == "float":
            piece[name] = _numbers(values, np.float64, np.nan)
        else:
            piece[name] = np.fromiter(values, np.bool_, len(values))
    return piece


def _numbers(values: list[Any], kind: Any, missing: float) -> Array:
    try:
        return np.fromiter(values, kind, len(values))
    except TypeError:  # some are None: they are records, or rows of a log that says null
        return np.fromiter((missing if value is None else value for value in values), kind, len(values))


@cache
def _values_of(name: str) -> Callable[[Sequence[msgspec.Struct]], list[Any]]:
    """A function that lists this field of all the records.

    Python reads an attribute whose name is in the code twice as fast as one whose name is a variable.
    """
    values_of: Callable[[Sequence[msgspec.Struct]], list[Any]]
    values_of = eval(f"lambda records: [record.{name} for record in records]")  # noqa: S307 (a field of ours)
    return values_of
