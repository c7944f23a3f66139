"""Apache Parquet, for pandas, DuckDB, Spark and the like."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from harness.export.formats import Choice
from harness.export.tables import frame_of
from harness.history.recorded import Recorded


def write(run: Recorded, choice: Choice) -> Iterator[bytes]:
    table = pa.Table.from_pandas(frame_of(run, choice.table), preserve_index=False)
    file = BytesIO()
    pq.write_table(table, file, compression="zstd")
    yield file.getvalue()
