"""From the pieces of a history (`harness.store.column_chunks`) to one table.

Times are absolute nanoseconds. Integers are kept in few bits (`harness.history.groups.narrowed`), so times in 64. Where
they may be missing they are pandas' nullable ones, never floats, which could not distinguish two nanoseconds. Names are
categoricals, numbered in the order of first appearance. A column in which everything is missing takes no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from fencepost.history import Op, Write
from harness.history.groups import narrowed
from harness.store.column_chunks import MISSING, Array, NameNumbers, Piece, kinds_of, piece_of

NAME: Final = pa.dictionary(pa.int32(), pa.string())


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


class Column:
    """One column of a table, which grows in place, so that no value is in memory twice. If every value is missing, or
    False, it takes no memory."""

    __slots__ = ("_absent", "_filled", "_is_optional", "_kind", "_reserved", "_values", "names", "rows")

    def __init__(self, field: pa.Field, names: NameNumbers | None = None, reserved: int = 0) -> None:
        """`reserved`: how many rows there are at most, if this is known. Rows that do not come take no memory."""
        self.names = NameNumbers() if names is None else names
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

    def take(self) -> Array | None:
        """Take the values of all rows, None if all are missing, leaving this empty."""
        values, self._values = self._values, None
        if values is not None:
            values.resize(self.rows, refcheck=False)
            values[self._filled :] = self._absent
        return values

    def pandas(self) -> Any:
        """Take the values, as a column of a `DataFrame`, leaving this empty."""
        values = self.take()
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


class Columns:
    """Collects pieces of a history (`harness.store.column_chunks`) as one table."""

    def __init__(self, schema: pa.Schema, record: type[msgspec.Struct], reserved: int = 0) -> None:
        self._kinds = kinds_of(record)
        self.names = {field.name: NameNumbers() for field in schema if field.type == NAME}
        self._columns = {field.name: Column(field, self.names.get(field.name), reserved) for field in schema}
        self.rows = 0

    def add(self, records: Sequence[msgspec.Struct], **known: str | int) -> None:
        """`known`: the values of columns that the records do not have."""
        self.add_piece(piece_of(records, self._kinds, self.names), **known)

    def add_piece(self, piece: Piece, **known: str | int) -> None:
        """A piece whose names have the numbers of `names`."""
        if not piece.rows:
            return
        numbers = {name: self.names[name][one] if isinstance(one, str) else one for name, one in known.items()}
        for name, column in self._columns.items():
            column.add(piece.rows, numbers.get(name, piece.columns.get(name)))
        self.rows += piece.rows

    def add_all(self, others: Columns) -> None:
        """All rows of other columns, which are empty afterwards."""
        for name, column in self._columns.items():
            values = others._columns[name].take()
            if values is not None and name in self.names:
                values = _renumbered(values, [self.names[name][one] for one in others.names[name].listed])
            column.add(others.rows, values)
        self.rows += others.rows

    def frame(self) -> pd.DataFrame:
        """Take all records in insertion order, leaving this empty."""
        return pd.DataFrame({name: column.pandas() for name, column in self._columns.items()}, copy=False)


def _renumbered(codes: Array, numbers: Sequence[int]) -> Array:
    """`numbers`: the new ones, in the order of the old ones."""
    if numbers == list(range(len(numbers))):
        return codes  # as a rule: all logs have the same few names
    return np.array([*numbers, -1], np.min_scalar_type(-max(numbers) - 1))[codes]


def widened(table: pd.DataFrame) -> pd.DataFrame:
    """A copy in which all integers have 64 bits: for others, who calculate with it and change it."""
    integers = {name: kind for name, kind in table.dtypes.items() if kind.kind == "i"}
    return table.astype(
        {name: "int64" if isinstance(kind, np.dtype) else "Int64" for name, kind in integers.items()}
    ).copy()


def ops_frame(lives: Iterable[tuple[str, int, Sequence[Op]]]) -> pd.DataFrame:
    """Operations, given as (client, life, some of its operations), as `Recorded.ops`."""
    columns = Columns(OPS_SCHEMA, Op)
    for client, life, ops in lives:
        columns.add(ops, client=client, life=life)
    return columns.frame()


def writes_frame(writes: Sequence[Write]) -> pd.DataFrame:
    """Accepted writes in the resource's order, as `Recorded.writes`."""
    columns = Columns(WRITES_SCHEMA, Write)
    columns.add(writes)
    return columns.frame()
