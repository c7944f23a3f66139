"""A history as one table of sections, a row each: what exclusion, blame, fencing and the counter are judged from.

A `.parquet` file that any program can write, for histories of any size and origin. Columns, with those of
`harness.sections` first:

client, life, section, key      life: which process of the client's name; section: numbered by the client
start_ns, end_ns                the client was inside, ends included
deadline_min_ns, deadline_max_ns  earliest and latest end of the validity that it had been told
ended                           "release", "killed" or "open"
token, token_source             the fencing token (or missing), which the section's write showed; "lock" or "resource"
value, accepted, told           what the section wrote (missing: nothing), the place of that write in the order in which
                                the resource accepted the key's writes (missing: not accepted), whether the client was
                                told that it was accepted

A table has no faults, no phases and no last read of the resource: the last accepted write of a key stands for that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.errors import UsageError
from harness.checkers.base import Recorded
from harness.config import RunConfig
from harness.grouping import all_different, ascending, codes_of, order_within, stable_order
from harness.history import Timeline
from harness.sections import positions_of

QUESTIONS: Final = ("counter", "exclusion", "fencing")
"""The checkers whose questions a table can answer."""

_NAME: Final = pa.dictionary(pa.int32(), pa.string())
SECTIONS_SCHEMA: Final = pa.schema(
    [
        pa.field("client", _NAME, nullable=False),
        pa.field("life", pa.int32(), nullable=False),
        pa.field("section", pa.int64(), nullable=False),
        pa.field("key", _NAME, nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("end_ns", pa.int64(), nullable=False),
        pa.field("deadline_min_ns", pa.int64(), nullable=False),
        pa.field("deadline_max_ns", pa.int64(), nullable=False),
        pa.field("ended", _NAME, nullable=False),
        pa.field("token", pa.int64()),
        pa.field("token_source", _NAME),
        pa.field("value", pa.int64()),
        pa.field("accepted", pa.int64()),
        pa.field("told", pa.bool_(), nullable=False),
    ]
)


def read_table(path: Path, config: RunConfig) -> Recorded:
    """The table as a recorded run, for the checkers in `QUESTIONS`; `config` says what was required and fenced.

    Raises UsageError for a file that cannot be read, lacks a column, or has a section that ends before it starts.
    """
    frame = pd.DataFrame(_columns(path), copy=False)
    if len(wrong := np.flatnonzero(frame["end_ns"].to_numpy() < frame["start_ns"].to_numpy())):
        raise UsageError(f"{path}, row {wrong[0] + 1}: the section ends before it starts")
    if not ascending(frame["start_ns"].to_numpy(np.int64)):
        frame = frame.sort_values("start_ns", kind="stable", ignore_index=True)
    writes, last = _writes(frame)
    start_ns, end_ns = (int(frame["start_ns"].iloc[0]), int(frame["end_ns"].max())) if len(frame) else (0, 0)
    return Recorded(
        config=config,
        timeline=Timeline(start_ns, end_ns, end_ns, end_ns),
        ops=_told(frame),
        sections=frame,
        writes=writes,
        faults=(),
        ends=(),
        planned_faults=0,
        final_values=dict(zip(last["key"].astype(str), last["value"].astype(int), strict=True)),
    )


def write_table(run: Recorded, path: Path) -> None:
    """The recorded run's sections with what they wrote. Raises UsageError if a section wrote more than once."""
    of_resource = positions_of(run.writes, run.sections)
    told = run.ops[(run.ops["f"] == "write") & (run.ops["outcome"] == "ok")]
    of_clients = positions_of(told, run.sections)
    frame = run.sections.assign(told=False)
    frame["value"] = frame["accepted"] = pd.array([pd.NA] * len(frame), "Int64")
    for table, position in ((told, of_clients), (run.writes, of_resource)):
        known = position >= 0
        if not all_different(position[known]):
            raise UsageError("a section wrote more than once; a table has room for one write a section")
        frame.loc[position[known], "value"] = table["value"].to_numpy(np.int64)[known]
    frame.loc[of_clients[of_clients >= 0], "told"] = True
    frame.loc[of_resource[of_resource >= 0], "accepted"] = np.flatnonzero(of_resource >= 0)
    save(pa.Table.from_pandas(frame[SECTIONS_SCHEMA.names], SECTIONS_SCHEMA, preserve_index=False), path)


def save(table: pa.Table, path: Path) -> None:
    """Write a table with the columns of `SECTIONS_SCHEMA`."""
    names = [field.name for field in SECTIONS_SCHEMA if field.type == _NAME]
    pq.write_table(table.cast(SECTIONS_SCHEMA), path, compression="none", use_dictionary=names)


def _columns(path: Path) -> dict[str, Any]:
    """The table's columns, two read at a time: at no time are all of them there twice."""
    columns: dict[str, Any] = {}
    names = SECTIONS_SCHEMA.names
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            missing = [name for name in names if name not in file.schema_arrow.names]
            if missing:
                raise UsageError(f"{path} is not a table of sections: it has no column {', '.join(missing)}")
            for some in (names[at : at + 2] for at in range(0, len(names), 2)):
                table = file.read(some).cast(pa.schema([SECTIONS_SCHEMA.field(name) for name in some]))
                columns |= {name: _column(table.column(name)) for name in some}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as a table of sections: {' '.join(str(error).split())}") from error
    return columns


def _column(column: pa.ChunkedArray) -> Any:
    if pa.types.is_dictionary(column.type):
        return column.to_pandas()
    if not column.null_count:
        return column.to_numpy()
    missing = column.is_null().to_numpy()
    return pd.arrays.IntegerArray(column.fill_null(0).to_numpy(), missing.copy())


def _writes(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The accepted writes, each key's in the order in which the resource accepted them, and the last one of each."""
    writes = frame[["key", "client", "section", "value", "token", "accepted"]]
    position = np.arange(len(frame), dtype=np.int64)
    missing = writes["accepted"].isna().to_numpy(np.bool_)
    if missing.any():
        writes, position = writes[~missing], position[~missing]
    writes = writes.assign(position=position)
    key, accepted = codes_of(writes["key"]), writes["accepted"].to_numpy(np.int64)
    order = stable_order(key)
    in_order, of_key = accepted[order], key[order]
    same_key = of_key[1:] == of_key[:-1]
    if (same_key & (in_order[1:] < in_order[:-1])).any():
        order = order_within(key, accepted)
        writes, order = writes.iloc[order], np.arange(len(order))
    last = order[np.append(~same_key, True)[: len(order)]]
    return writes.reset_index(drop=True), writes.iloc[last]


def _told(frame: pd.DataFrame) -> pd.DataFrame:
    """The writes of which their clients were told, as operations."""
    ops = frame[["client", "life", "section", "key", "value", "end_ns"]].rename(columns={"end_ns": "complete_ns"})
    told = frame["told"].to_numpy(np.bool_)
    if not told.all():
        ops = ops[told]
    nothing = np.zeros(len(ops), np.int8)
    return ops.assign(
        f=pd.Categorical.from_codes(nothing, pd.Index(["write"])),
        outcome=pd.Categorical.from_codes(nothing, pd.Index(["ok"])),
        stale=nothing.astype(np.bool_),
    )
