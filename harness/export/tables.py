"""One table of a run, as `fencepost.load` gives it, with plain values that any reader of tables understands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pandas as pd

from fencepost.history import FaultEvent
from harness.export.formats import Table
from harness.history.recorded import Recorded
from harness.store.columns import widened

_FAULT_COLUMNS = tuple(field.name for field in msgspec.structs.fields(FaultEvent))


def frame_of(run: Recorded, table: Table) -> pd.DataFrame:
    """Times are CLOCK_MONOTONIC in nanoseconds. Names that a fault hit are JSON texts."""
    if table == "faults":
        rows = [[_plain(getattr(event, name)) for name in _FAULT_COLUMNS] for event in run.faults]
        return pd.DataFrame(rows, columns=list(_FAULT_COLUMNS))
    return widened(getattr(run, table))


def records(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of a table, each by column, with Python's own numbers."""
    names = table.columns.tolist()
    columns = [table[name].astype(object).tolist() for name in names]
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _plain(value: object) -> object:
    return msgspec.json.encode(value).decode() if isinstance(value, tuple) else value
