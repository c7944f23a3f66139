"""Tables in Parquet files: read into columns batch by batch, so that no data is in memory twice."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.errors import UsageError
from harness.store.columns import NAME, Column
from harness.store.pieces import MISSING, Array

_BATCH_ROWS: Final = 1 << 17
_BUFFER_BYTES: Final = 1 << 20


def read_frame(path: Path, schema: pa.Schema, what: str, may_lack: Collection[str] = ()) -> pd.DataFrame:
    """The columns of the schema. `what`: what the file should be, for errors. Integers that may be missing are `Int64`,
    names are categoricals. `may_lack`: columns without which the file is whole; all their values are missing then.

    Raises UsageError for a file that cannot be read, lacks a column, or has a column of another type.
    """
    try:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
            there = [name for name in schema.names if name in file.schema_arrow.names]
            missing = [name for name in schema.names if name not in there and name not in may_lack]
            if missing:
                raise UsageError(f"{path} is not {what}: it has no column {', '.join(missing)}")
            columns = [Column(field, reserved=file.metadata.num_rows) for field in schema]
            for batch in file.iter_batches(_BATCH_ROWS, columns=there):
                for column, field in zip(columns, schema, strict=True):
                    if field.name not in there:
                        column.add(len(batch), None)
                        continue
                    array = batch.column(field.name).cast(field.type)
                    if array.null_count and not field.nullable:
                        raise UsageError(f"{path} is not {what}: it has rows without {field.name}")
                    column.add(len(batch), _values(column, array))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as {what}: {' '.join(str(error).split())}") from error
    return pd.DataFrame(
        {field.name: column.pandas() for field, column in zip(schema, columns, strict=True)}, copy=False
    )


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
