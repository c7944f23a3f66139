"""From records to numbers: what a piece of a log becomes as soon as it is decoded.

Only one piece exists as Python objects at a time. This module needs numpy and msgspec and nothing else, so that a
process that only decodes starts quickly (`harness.store.decoding`).

A number that is missing is `MISSING` in a column of integers and NaN in one of floats; a name that is missing has the
code -1. Records are decoded into rows that have these values by default.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Any, Final, Literal, get_args, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt

MISSING: Final = -(2**63)
Kind = Literal["name", "int", "float", "bool"]
_TYPES: Final[dict[Kind, str]] = {"name": "i4", "int": "i8", "float": "f8", "bool": "?"}
_PACKED: Final[dict[Kind, str]] = {"name": "i", "int": "q", "float": "d", "bool": "?"}
"""The same types, as `struct` calls them."""
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


class RowDecoder:
    """Decodes lines into rows: a record's fields, where a number that is not there is `MISSING` or NaN.

    A log uses about half of the fields, and the others would cost as much. So a row has only the fields that the log
    has shown so far, until a line has another one.
    """

    def __init__(self, record: type[msgspec.Struct]) -> None:
        fields = msgspec.structs.fields(record)
        self._record = record
        self._shown = frozenset(field.name for field in fields if field.default is msgspec.NODEFAULT)
        self._all = msgspec.json.Decoder(_row_of(record, frozenset(field.name for field in fields)))
        self._shown_only = msgspec.json.Decoder(_row_of(record, self._shown))

    def decode(self, line: bytes) -> msgspec.Struct:
        return self._all.decode(line)

    def decode_lines(self, lines: bytes) -> Sequence[msgspec.Struct]:
        """Raises as msgspec does for a line that is not a record."""
        try:
            return self._shown_only.decode_lines(lines)
        except msgspec.ValidationError:  # another field, or no record
            rows = self._all.decode_lines(lines)
        kinds = kinds_of(self._record)
        found = piece_of(rows, kinds, {name: Names() for name in kinds})
        if self._shown >= found.keys():
            self._shown_only = self._all  # fields that say nothing, or that nobody here knows
        else:
            self._shown |= frozenset(found)
            self._shown_only = msgspec.json.Decoder(_row_of(self._record, self._shown))
        return rows


def piece_of(records: Sequence[msgspec.Struct], kinds: dict[str, Kind], names: Mapping[str, Names]) -> Piece:
    """The columns of some records (or rows). `names`: the numbers of the names in each column of names."""
    fields = tuple(name for name in records[0].__struct_fields__ if name in kinds)
    of_fields = tuple(kinds[name] for name in fields)
    try:
        packed = _packer(fields, of_fields, careful=False)(records, {name: dict(names[name]) for name in names})
    except (KeyError, struct.error):  # a name that is new, or a number that is None
        packed = _packer(fields, of_fields, careful=True)(records, names)
    rows = np.frombuffer(packed, [(name, _TYPES[kinds[name]]) for name in fields])
    piece = {}
    for name in fields:
        kind, values = kinds[name], rows[name]
        if not _is_absent(kind, values):
            piece[name] = values.astype(np.min_scalar_type(-len(names[name]) - 1) if kind == "name" else values.dtype)
    return piece


def _is_absent(kind: Kind, values: Array) -> bool:
    match kind:
        case "name":
            return bool((values == -1).all())
        case "int":
            return bool((values == MISSING).all())
        case "float":
            return bool(np.isnan(values).all())
        case "bool":
            return not values.any()


@cache
def _row_of(record: type[msgspec.Struct], names: frozenset[str]) -> type[msgspec.Struct]:
    """These fields of the record; if these are not all, a line that has another one is refused."""
    absent = {"int": MISSING, "float": np.nan}
    hints, kinds = get_type_hints(record, include_extras=True), kinds_of(record)
    fields = []
    for field in msgspec.structs.fields(record):
        if field.name in names:
            default = absent.get(kinds[field.name]) if field.default is None else field.default
            one: tuple[str, Any] | tuple[str, Any, Any] = (field.name, hints[field.name])
            fields.append(one if default is msgspec.NODEFAULT else (*one, default))
    is_whole = len(fields) == len(hints)
    return msgspec.defstruct(f"{record.__name__}Row", fields, gc=False, forbid_unknown_fields=not is_whole)


@cache
def _packer(fields: tuple[str, ...], kinds: tuple[Kind, ...], *, careful: bool) -> Callable[..., bytes]:
    """A function of records and the numbers of names that packs the records' fields one after the other. `careful`:
    numbers may be None.

    Python reads an attribute whose name is in the code twice as fast as one whose name is a variable, and packing all
    fields of a record at once is faster than listing them one by one.
    """
    absent: dict[Kind, str] = {"int": str(MISSING), "float": "nan"}
    lines, values = ["def packed(records, names):"], []
    for field, kind in zip(fields, kinds, strict=True):
        value = f"record.{field}"
        if kind == "name":
            lines.append(f"    {field} = names[{field!r}]")
            value = f"{field}[{value}]"
        elif kind in absent and careful:
            value = f"{absent[kind]} if (value := {value}) is None else value"
        values.append(value)
    lines.append(f"    return b''.join([pack({', '.join(values)}) for record in records])")
    layout = struct.Struct("=" + "".join(_PACKED[kind] for kind in kinds))
    scope: dict[str, Any] = {"pack": layout.pack, "nan": np.nan}
    exec("\n".join(lines), scope)  # noqa: S102 (fields of ours)
    function: Callable[..., bytes] = scope["packed"]
    return function
