"""Tables in Parquet files: read into columns batch by batch, so that no data is in memory twice. Of long ones, each
processor reads some of the columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.errors import UsageError
from harness.store.columns import MISSING, NAME, Array, Column

WORTH_A_THREAD: Final = 1 << 18
"""Rows."""
_BATCH_ROWS: Final = 1 << 17
_BUFFER_BYTES: Final = 1 << 20


def read_frame(path: Path, schema: pa.Schema, what: str) -> pd.DataFrame:
    """The columns of the schema. `what`: what the file should be, for errors. Integers that may be missing are `Int64`,
    names are categoricals.

    Raises UsageError for a file that cannot be read, lacks a column, or has a column of another type.
    """
    try:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
            rows, there = file.metadata.num_rows, frozenset(file.schema_arrow.names)
        missing = [name for name in schema.names if name not in there]
        if missing:
            raise UsageError(f"{path} is not {what}: it has no column {', '.join(missing)}")
        columns = {field.name: Column(field, rows) for field in schema}
        for name in columns.keys() - there:
            columns[name].add(rows, None)
        fields = [field for field in schema if field.name in there]
        parts = min(len(os.sched_getaffinity(0)), max(1, rows // WORTH_A_THREAD))
        with ThreadPoolExecutor(parts) as pool:
            read = partial(_read, path, what, columns)
            list(pool.map(read, [fields[part::parts] for part in range(parts)]))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as {what}: {' '.join(str(error).split())}") from error
    return pd.DataFrame({name: column.pandas() for name, column in columns.items()}, copy=False)


def _read(path: Path, what: str, columns: Mapping[str, Column], fields: Sequence[pa.Field]) -> None:
    """Some of the columns, read to their ends."""
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=[field.name for field in fields], use_threads=False):
            for field in fields:
                column, array = columns[field.name], batch.column(field.name).cast(field.type)
                if array.null_count and not field.nullable:
                    raise UsageError(f"{path} is not {what}: it has rows without {field.name}")
                column.add(len(batch), _values(column, array))


def _values(column: Column, array: pa.Array) -> Array:
    """The argument of `Column.add`."""
    if array.type == NAME:
        numbers = pa.array([column.names[name] for name in array.dictionary.to_pylist()], pa.int32())
        codes: Array = numbers.take(array.indices).fill_null(-1).to_numpy()
        return codes
    if array.null_count and pa.types.is_integer(array.type):
        array = array.fill_null(MISSING)
    values: Array = array.to_numpy(zero_copy_only=False)
    return values
