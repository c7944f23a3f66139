"""From the pieces of a history (`harness.store.pieces`) to one table.

Times are absolute int64 nanoseconds. A column whose times may be missing is pandas' nullable `Int64`, never a float,
which could not distinguish two nanoseconds. Names are categoricals, numbered in the order of first appearance. A column
in which everything is missing takes no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from fencepost.history import Op, Write
from harness.store.pieces import MISSING, Array, Names, Piece, kinds_of, piece_of

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
        column("reason", NAME, optional=True),
    ]
)
OLD_OPS_LACK: Final = frozenset({"granted_ms", "reason"})
"""Columns that an older fencepost did not write."""
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
    """One column of a table, to be filled. Rows that are not filled are missing, or False; if none is, they take no
    memory."""

    __slots__ = ("_absent", "_done", "_is_optional", "_kind", "_rows", "_values", "names")

    def __init__(self, field: pa.Field, rows: int, names: Names | None = None) -> None:
        self.names = Names() if names is None else names
        self._rows = rows
        self._values: Array | None = None
        self._done = 0
        self._kind = None if field.type == NAME else np.dtype(field.type.to_pandas_dtype())
        self._is_optional = field.nullable and pa.types.is_integer(field.type)
        self._absent: float = -1 if self._kind is None else MISSING if self._is_optional else 0
        if field.type == pa.float64():
            self._absent = np.nan

    def fill(self, at: int, count: int, values: Array | int) -> None:
        """So many rows from this one on, after all those that were filled before. `values`: one for each row or for
        all; names as their numbers, missing integers as `MISSING`."""
        kind = self._kind or np.min_scalar_type(-len(self.names))
        if self._values is None:
            self._values = np.empty(self._rows, kind)
        self._values = self._values.astype(np.promote_types(kind, self._values.dtype), copy=False)
        self._values[self._done : at] = self._absent
        self._values[at : at + count] = values
        self._done = at + count

    def pandas(self) -> Any:
        values = self._values
        if values is None:
            values = np.broadcast_to(np.array(self._absent, self._kind or np.int8), self._rows)
        else:
            values[self._done :] = self._absent
        if self._kind is None:
            return pd.Categorical.from_codes(values, pd.Index(self.names.listed, dtype="str"))
        return pd.arrays.IntegerArray(values, _missing(values)) if self._is_optional else values


def _missing(values: Array) -> Array:
    """A column that is missing as a whole has one value for all its rows, and its mask too."""
    if values.strides == (0,):
        return np.broadcast_to(np.True_, values.shape)
    missing: Array = values == MISSING
    return missing


class Columns:
    """Collects pieces of a history (`harness.store.pieces`) as one table."""

    def __init__(self, schema: pa.Schema, record: type[msgspec.Struct]) -> None:
        self.kinds = kinds_of(record)
        self.names = {field.name: Names() for field in schema if field.type == NAME}
        self._schema = schema
        self._pieces: list[tuple[int, Piece, dict[str, int]]] = []

    def add(self, records: Sequence[msgspec.Struct], **known: str | int) -> None:
        """`known`: the values of columns that the records do not have."""
        if records:
            self.add_piece(len(records), piece_of(records, self.kinds, self.names), **known)

    def add_piece(self, rows: int, piece: Piece, **known: str | int) -> None:
        """A piece whose names have the numbers of `names`."""
        numbers = {name: self.names[name][one] if isinstance(one, str) else one for name, one in known.items()}
        self._pieces.append((rows, piece, numbers))

    def frame(self) -> pd.DataFrame:
        """All records, in the order in which they were added. Ends the collection, so that nothing is held twice."""
        return pd.DataFrame({field.name: self._column(field).pandas() for field in self._schema}, copy=False)

    def _column(self, field: pa.Field) -> Column:
        rows = sum(rows for rows, _, _ in self._pieces)
        column, at = Column(field, rows, self.names.get(field.name)), 0
        for count, piece, known in self._pieces:
            if field.name in known:
                column.fill(at, count, known[field.name])
            elif (values := piece.pop(field.name, None)) is not None:
                column.fill(at, count, values)
            at += count
        return column


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
