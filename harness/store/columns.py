"""From records to columns: reads logs of JSON lines into tables, fast and in bounded memory.

A log is read in pieces (`harness.store.append_log`). Each is decoded into msgspec structs and immediately converted to
columns of numbers. So only one piece exists as Python objects at a time, and a whole history takes about a hundred
bytes per operation. Times are absolute int64 nanoseconds. A column whose times may be missing is pandas' nullable
`Int64`, never a float, which could not distinguish two nanoseconds. Names are categoricals, numbered in the order of
first appearance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from fencepost.history import Op, Write

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


class Names(dict[str | None, int]):
    """Numbers names from 0 in the order of their first appearance; None has the number -1."""

    def __init__(self) -> None:
        super().__init__({None: -1})

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self) - 1
        return number

    def categorical(self, codes: npt.NDArray[np.int32]) -> pd.Categorical:
        return pd.Categorical.from_codes(codes, pd.Index(list(self)[1:], dtype="str"))


class Column:
    """One column of a table, to be filled. Rows that are not filled are missing, or False."""

    __slots__ = ("_field", "_missing", "_values", "names")

    def __init__(self, field: pa.Field, rows: int, names: Names | None = None) -> None:
        self._field = field
        self.names = Names() if names is None else names
        self._missing: npt.NDArray[np.bool_] | None = None
        if field.type == NAME:
            self._values: npt.NDArray[Any] = np.full(rows, -1, np.int8)
        elif field.type == pa.float64():
            self._values = np.full(rows, np.nan)
        else:
            self._values = np.zeros(rows, field.type.to_pandas_dtype())
            if field.nullable:
                self._missing = np.ones(rows, np.bool_)

    def fill(self, at: int, count: int, values: Any, missing: npt.NDArray[np.bool_] | None = None) -> None:
        """`values`: an array, or one value for all rows; names as their numbers."""
        if self._field.type == NAME:
            self._values = self._values.astype(np.min_scalar_type(-len(self.names)), copy=False)
        self._values[at : at + count] = values
        if self._missing is not None:
            self._missing[at : at + count] = False if missing is None else missing

    def pandas(self) -> Any:
        if self._field.type == NAME:
            return self.names.categorical(self._values)
        return self._values if self._missing is None else pd.arrays.IntegerArray(self._values, self._missing)


class Columns:
    """Collects records as columns, piece by piece."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._names = {field.name: Names() for field in schema if field.type == NAME}
        self._filled: dict[str, list[tuple[Any, ...]]] = {field.name: [] for field in schema}
        self._rows = 0

    def add(self, records: Sequence[msgspec.Struct], **known: str | int) -> None:
        """`known`: the values of columns that the records do not have."""
        if not records:
            return
        for field in self._schema:
            name = field.name
            if name in known:
                one = known[name]
                filled: tuple[Any, ...] | None = (self._names[name][one] if isinstance(one, str) else one,)
            else:
                filled = self._of(_values_of(name)(records), field)
            if filled:
                self._filled[name].append((self._rows, len(records), *filled))
        self._rows += len(records)

    def frame(self) -> pd.DataFrame:
        """All records, in the order in which they were added. Ends the collection, so that nothing is held twice."""
        arrays = {}
        for field in self._schema:
            column = Column(field, self._rows, self._names.get(field.name))
            for filled in self._filled.pop(field.name):
                column.fill(*filled)
            arrays[field.name] = column.pandas()
        return pd.DataFrame(arrays, copy=False)

    def _of(self, values: list[Any], field: pa.Field) -> tuple[Any, ...] | None:
        """One field of all the records, as arguments of `Column.fill`; None if there is nothing to fill."""
        if field.nullable and field.type != NAME:
            array = pa.array(values, field.type)
            if array.null_count == len(array):
                return None
            if field.type == pa.float64():
                return (array.to_numpy(zero_copy_only=False),)
            return array.fill_null(0).to_numpy(), array.is_null().to_numpy(zero_copy_only=False)
        if values[0] in (None, False) and values.count(values[0]) == len(values):
            return None
        if field.type == NAME:
            return (np.fromiter(map(self._names[field.name].__getitem__, values), np.int32, len(values)),)
        return (np.fromiter(values, field.type.to_pandas_dtype(), len(values)),)


@cache
def _values_of(name: str) -> Callable[[Sequence[msgspec.Struct]], list[Any]]:
    """A function that lists this field of all the records.

    Python reads an attribute whose name is in the code twice as fast as one whose name is a variable.
    """
    values_of: Callable[[Sequence[msgspec.Struct]], list[Any]]
    values_of = eval(f"lambda records: [record.{name} for record in records]")  # noqa: S307 (a field of ours)
    return values_of


def ops_frame(lives: Iterable[tuple[str, int, Sequence[Op]]]) -> pd.DataFrame:
    """Operations, given as (client, life, some of its operations), as `Recorded.ops`."""
    columns = Columns(OPS_SCHEMA)
    for client, life, ops in lives:
        columns.add(ops, client=client, life=life)
    return columns.frame()


def writes_frame(writes: Sequence[Write]) -> pd.DataFrame:
    """Accepted writes in the resource's order, as `Recorded.writes`."""
    columns = Columns(WRITES_SCHEMA)
    columns.add(writes)
    return columns.frame()
