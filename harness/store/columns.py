"""From the records of a log to one table.

Times are absolute nanoseconds. Integers are kept in few bits (`harness.history.groups.narrowed`), so times in 64. Where
they may be missing they are pandas' nullable ones, never floats, which could not distinguish two nanoseconds. Names are
categoricals, numbered in the order of first appearance. A column in which everything is missing takes no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from fencepost.history import Op, Write
from harness.history.groups import narrowed

Array = npt.NDArray[Any]
NAME: Final = pa.dictionary(pa.int32(), pa.string())
MISSING: Final = -(2**63)
"""A missing integer, until the column is taken."""


def column(name: str, kind: pa.DataType, *, optional: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=optional)


OPS_SCHEMA: Final = pa.schema(
    [
        column("client", NAME),
        column("life", pa.int32()),
        column("f", NAME),
        column("outcome", NAME),
        column("key", NAME),
        column("section", pa.int64()),
        column("invoke_ns", pa.int64()),
        column("complete_ns", pa.int64()),
        column("value", pa.int64(), optional=True),
        column("token", pa.int64(), optional=True),
        column("token_source", NAME, optional=True),
        column("validity_ms", pa.float64(), optional=True),
        column("deadline_ns", pa.int64(), optional=True),
        column("computed_after_ns", pa.int64(), optional=True),
        column("computed_before_ns", pa.int64(), optional=True),
        column("requested_ns", pa.int64(), optional=True),
        column("stale", pa.bool_()),
        column("error", NAME, optional=True),
        column("granted_ms", pa.float64(), optional=True),
        column("shared", pa.bool_()),
        column("cancelled", pa.bool_()),
    ]
)
WRITES_SCHEMA: Final = pa.schema(
    [
        column("key", NAME),
        column("index", pa.int64()),
        column("client", NAME),
        column("section", pa.int64()),
        column("value", pa.int64()),
        column("token", pa.int64(), optional=True),
        column("read", pa.int64(), optional=True),
        column("replaced", pa.int64(), optional=True),
    ]
)


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


class Column:
    """One column of a table, which grows in place, so that no value is in memory twice. If every value is missing, or
    False, it takes no memory."""

    __slots__ = ("_absent", "_filled", "_is_optional", "_kind", "_reserved", "_values", "names", "rows")

    def __init__(self, field: pa.Field, reserved: int) -> None:
        """`reserved`: how many rows there are at most, if this is known. Rows that do not come take no memory."""
        self.names = NameNumbers()
        self.rows = 0
        self._reserved, self._filled = reserved, 0
        self._values: Array | None = None
        self._kind = None if field.type == NAME else np.dtype(field.type.to_pandas_dtype())
        self._is_optional = field.nullable and pa.types.is_integer(field.type)
        self._absent: float = -1 if self._kind is None else MISSING if self._is_optional else 0
        if field.type == pa.float64():
            self._absent = np.nan

    def add(self, count: int, values: Array | int | None) -> None:
        """So many rows more. `values`: one for each row or for all; names as their numbers, missing integers as
        `MISSING`. None: they are missing, or False."""
        at, self.rows = self.rows, self.rows + count
        if values is not None:
            room = self._room()
            room[self._filled : at] = self._absent
            room[at : self.rows] = values
            self._filled = self.rows

    def add_each(self, values: Sequence[Any]) -> None:
        """The values of so many rows more, as they stand in the records: names are texts, and what is missing is
        None."""
        nothing = False if self._kind == np.bool_ else None
        if values.count(nothing) == len(values):
            self.add(len(values), None)
        elif self._kind is None:
            self.add(len(values), np.array([self.names[value] for value in values], np.int32))
        else:
            self.add(len(values), np.array([self._absent if one is None else one for one in values], self._kind))

    def pandas(self) -> Any:
        """Take the values, as a column of a `DataFrame`, leaving this empty."""
        values, self._values = self._values, None
        if values is not None:
            values.resize(self.rows, refcheck=False)
            values[self._filled :] = self._absent
        if values is None or (self._is_optional and values.max(initial=MISSING) == MISSING):
            values = np.broadcast_to(np.array(self._absent, self._kind or np.int8), self.rows)
        if self._kind is None:
            return pd.Categorical.from_codes(values, pd.Index(self.names.listed, dtype="str"))
        if self._is_optional:
            missing = _missing(values)
            return pd.arrays.IntegerArray(narrowed(values, ~missing), missing)
        return narrowed(values) if self._kind.kind == "i" else values

    def _room(self) -> Array:
        """The values, with room for all rows. Growing by an eighth moves pages, not bytes."""
        kind = self._kind or np.min_scalar_type(-len(self.names))
        values, most = self._values, max(self.rows, self._reserved)
        if values is None:
            values = np.empty(most, kind)
        elif (wider := np.promote_types(kind, values.dtype)) != values.dtype:
            values = values.astype(wider)
        if len(values) < self.rows:
            values.resize(max(most, len(values) * 9 // 8), refcheck=False)
        self._values = values
        return values


def _missing(values: Array) -> Array:
    """A column that is missing as a whole has one value for all its rows, and its mask too."""
    if values.strides == (0,):
        return np.broadcast_to(np.True_, values.shape)
    missing: Array = values == MISSING
    return missing


def ops_frame(lives: Iterable[tuple[str, int, Sequence[Op]]], reserved: int = 0) -> pd.DataFrame:
    """Operations, given as (client, life, some of its operations), as `Recorded.ops`. `reserved`: as for a `Column`."""
    return _table(OPS_SCHEMA, reserved, ((ops, {"client": client, "life": life}) for client, life, ops in lives))


def writes_frame(pieces: Iterable[Sequence[Write]], reserved: int = 0) -> pd.DataFrame:
    """Accepted writes in the resource's order, as `Recorded.writes`."""
    return _table(WRITES_SCHEMA, reserved, ((writes, {}) for writes in pieces))


def _table(
    schema: pa.Schema, reserved: int, pieces: Iterable[tuple[Sequence[msgspec.Struct], Mapping[str, str | int]]]
) -> pd.DataFrame:
    """A row a record. Each piece of them comes with the values of the columns that its records do not have."""
    columns = {field.name: Column(field, reserved) for field in schema}
    for records, known in pieces:
        for name, column in columns.items():
            if name in known:
                value = known[name]
                column.add(len(records), column.names[value] if isinstance(value, str) else value)
            else:
                column.add_each(list(map(attrgetter(name), records)))
    return pd.DataFrame({name: column.pandas() for name, column in columns.items()}, copy=False)


def widened(table: pd.DataFrame) -> pd.DataFrame:
    """A copy in which all integers have 64 bits: for others, who calculate with it and change it."""
    integers = {name: kind for name, kind in table.dtypes.items() if kind.kind == "i"}
    return table.astype(
        {name: "int64" if isinstance(kind, np.dtype) else "Int64" for name, kind in integers.items()}
    ).copy()
