"""A history as one table of sections, one row each: enough to judge exclusion, blame, fencing and the counter.

It is a `.parquet` file that any program can write, for histories of any size and origin. Its columns, starting with
those of `harness.history.sections`:

client, life, section, key      life: which process of that client; section: numbered by the client
start_ns, end_ns                the client was inside, ends included
deadline_min_ns, deadline_max_ns  earliest and latest end of the reported validity
ended                           "release", "killed" or "open"
token, token_source             the fencing token that the section's write carried (or missing); "lock" or "resource"
value                           what the section wrote (missing: nothing)
accepted                        the place of that write in the order in which the resource accepted the key's writes
                                (missing: not accepted)
told                            whether the client received the acknowledgement

A table has no faults, no phases and no last read of the resource; the last accepted write of a key replaces that read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.errors import UsageError
from fencepost.history import Timeline
from harness.config import RunConfig
from harness.history.groups import Groups, Ints, all_different, ascending, codes_of, known
from harness.history.overlaps import sections_by_key
from harness.history.recorded import Recorded
from harness.history.sections import POSITION, positions_of
from harness.store.columns import NAME, column
from harness.store.parquet import read_frame

QUESTIONS: Final = ("counter", "exclusion", "fencing")
"""The checkers whose questions a table can answer."""

SECTIONS_SCHEMA: Final = pa.schema(
    [
        column("client", NAME),
        column("life", pa.int32()),
        column("section", pa.int64()),
        column("key", NAME),
        column("start_ns", pa.int64()),
        column("end_ns", pa.int64()),
        column("deadline_min_ns", pa.int64()),
        column("deadline_max_ns", pa.int64()),
        column("ended", NAME),
        column("token", pa.int64(), optional=True),
        column("token_source", NAME, optional=True),
        column("value", pa.int64(), optional=True),
        column("accepted", pa.int64(), optional=True),
        column("told", pa.bool_()),
    ]
)


def read_table(path: Path, config: RunConfig) -> Recorded:
    """The table as a recorded run, for the checkers in `QUESTIONS`. `config` says what is required and what was fenced.

    Raises UsageError for a file that cannot be read, lacks a column, or has a section that ends before it starts.
    """
    frame = read_frame(path, SECTIONS_SCHEMA, "a table of sections")
    start, end = frame["start_ns"].to_numpy(np.int64), frame["end_ns"].to_numpy(np.int64)
    if len(wrong := np.flatnonzero(end < start)):
        raise UsageError(f"{path}, row {wrong[0] + 1}: the section ends before it starts")
    if not ascending(start):
        frame = frame.sort_values("start_ns", kind="stable", ignore_index=True)
    by_key = sections_by_key(frame)
    rows = _accepted(frame, by_key)
    writes = frame[["key", "client", "section", "value", "token"]].rename_axis(POSITION)
    if rows is not None:
        writes = writes.iloc[rows]
    writes_by_key = by_key if rows is None else Groups.of(codes_of(writes["key"]))
    last = writes.iloc[writes_by_key.last()]
    start_ns, end_ns = (int(frame["start_ns"].iloc[0]), int(end.max())) if len(frame) else (0, 0)
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
    ).ordered(by_key, writes_by_key)


def write_table(run: Recorded, path: Path) -> None:
    """Write the recorded run's sections and their writes. Raises UsageError if a section wrote more than once."""
    of_resource = positions_of(run.writes, run.sections)
    told = run.ops[(run.ops["f"] == "write") & (run.ops["outcome"] == "ok")]
    of_clients = positions_of(told, run.sections)
    frame = run.sections.assign(told=False)
    frame["value"] = frame["accepted"] = pd.array([pd.NA] * len(frame), "Int64")
    for table, position in ((told, of_clients), (run.writes, of_resource)):
        known = position >= 0
        if not all_different(position[known]):
            raise UsageError("a section wrote more than once; a table has room for one write per section")
        frame.loc[position[known], "value"] = table["value"].to_numpy(np.int64)[known]
    frame.loc[of_clients[of_clients >= 0], "told"] = True
    frame.loc[of_resource[of_resource >= 0], "accepted"] = np.flatnonzero(of_resource >= 0)
    save(pa.Table.from_pandas(frame[SECTIONS_SCHEMA.names], SECTIONS_SCHEMA, preserve_index=False), path)


def save(table: pa.Table, path: Path) -> None:
    """Write a table with the columns of `SECTIONS_SCHEMA`."""
    names = [field.name for field in SECTIONS_SCHEMA if field.type == NAME]
    pq.write_table(table.cast(SECTIONS_SCHEMA), path, compression="none", use_dictionary=names)


def _accepted(frame: pd.DataFrame, by_key: Groups) -> Ints | None:
    """The rows of the accepted writes, for each key in the order in which the resource accepted them; None if these are
    all rows in the table's order."""
    there, place = known(frame["accepted"])
    written = by_key.keep(by_key.take(there))
    places = written.take(place)
    in_order = not written.within(places[1:] < places[:-1]).any()
    if in_order and there.all():
        return None
    rows = np.flatnonzero(there)
    return rows if in_order else rows[np.argsort(place[rows], kind="stable")]


def _told(frame: pd.DataFrame) -> pd.DataFrame:
    """The writes that were acknowledged to their clients, as operations."""
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
