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


class _Column:
    """One column of a table, which comes in pieces. If every value is missing, or False, it takes no memory."""

    def __init__(self, field: pa.Field) -> None:
        self._names = NameNumbers()
        self._is_name = field.type == NAME
        self._is_optional = field.nullable and pa.types.is_integer(field.type)
        self._kind = np.dtype(np.int32 if self._is_name else field.type.to_pandas_dtype())
        self._absent: float = -1 if self._is_name else MISSING if self._is_optional else 0
        if field.type == pa.float64():
            self._absent = np.nan
        self._pieces: list[Array] = []
        self._is_absent = True

    def add(self, values: Sequence[Any]) -> None:
        """A value a row. What is missing is None."""
        if values.count(False if self._kind == np.bool_ else None) == len(values):
            self._pieces.append(np.broadcast_to(np.array(self._absent, self._kind), len(values)))
            return
        if self._is_name:
            values = [self._names[value] for value in values]
        self._pieces.append(np.array([self._absent if one is None else one for one in values], self._kind))
        self._is_absent = False

    def add_same(self, count: int, value: str | int) -> None:
        """Add this many rows, all with one value."""
        number = self._names[value] if isinstance(value, str) else value
        self._pieces.append(np.broadcast_to(np.array(number, self._kind), count))
        self._is_absent = False

    def pandas(self) -> Any:
        """Take the values, as a column of a `DataFrame`, leaving this empty."""
        pieces, self._pieces = self._pieces, []
        if self._is_absent:
            values = np.broadcast_to(np.array(self._absent, self._kind), sum(map(len, pieces)))
        else:
            values = np.concatenate(pieces)
        if self._is_name:
            return pd.Categorical.from_codes(values, pd.Index(self._names.listed, dtype="str"))
        if self._is_optional:
            missing = np.broadcast_to(np.True_, values.shape) if self._is_absent else values == MISSING
            return pd.arrays.IntegerArray(narrowed(values, ~missing), missing)
        return narrowed(values) if self._kind.kind == "i" else values


def ops_frame(lives: Iterable[tuple[str, int, Sequence[Op]]]) -> pd.DataFrame:
    """Operations, given as (client, life, some of its operations), as `Recorded.ops`."""
    return _table(OPS_SCHEMA, ((ops, {"client": client, "life": life}) for client, life, ops in lives))


def writes_frame(pieces: Iterable[Sequence[Write]]) -> pd.DataFrame:
    """Accepted writes in the resource's order, as `Recorded.writes`."""
    return _table(WRITES_SCHEMA, ((writes, {}) for writes in pieces))


def _table(
    schema: pa.Schema, pieces: Iterable[tuple[Sequence[msgspec.Struct], Mapping[str, str | int]]]
) -> pd.DataFrame:
    """A row a record. Each piece of them comes with the values of the columns that its records do not have."""
    columns = {field.name: _Column(field) for field in schema}
    for records, known in pieces:
        for name, column in columns.items():
            if name in known:
                column.add_same(len(records), known[name])
            else:
                column.add(list(map(attrgetter(name), records)))
    return pd.DataFrame({name: column.pandas() for name, column in columns.items()}, copy=False)


def widened(table: pd.DataFrame) -> pd.DataFrame:
    """A copy in which all integers have 64 bits: for others, who calculate with it and change it."""
    integers = {name: kind for name, kind in table.dtypes.items() if kind.kind == "i"}
    return table.astype(
        {name: "int64" if isinstance(kind, np.dtype) else "Int64" for name, kind in integers.items()}
    ).copy()
