"""Many logs as one table: read by as many threads as there are processors, if they are long enough to be worth it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec
import pandas as pd

from fencepost.history import Op
from harness.store.append_log import read_lines_with
from harness.store.columnar_json import PIECE_BYTES, ColumnDecoder
from harness.store.columns import OPS_SCHEMA, Columns

WORTH_A_THREAD: Final = 1 << 24
"""Bytes of logs. For less, the second thread would wait for Python's lock most of the time."""

Log = tuple[str, int, Path]
"""Client, life and where the log is."""


def read_ops(logs: Sequence[Log]) -> pd.DataFrame:
    """The operations of these logs, one log after the other. Raises UsageError for one that is damaged."""
    first, *others = shares_of(logs)
    with ThreadPoolExecutor(max(1, len(others))) as beside:
        later = [beside.submit(_columns_of, share) for share in others]
        columns = _columns_of(first)
        for own in later:
            columns.add_all(own.result())
    return columns.frame()


def shares_of(logs: Sequence[Log]) -> list[list[Log]]:
    """The logs, in order, in parts of about the same number of bytes: as many as there are processors, or fewer if they
    are short."""
    sizes = [path.stat().st_size if path.is_file() else 0 for _, _, path in logs]
    parts = max(1, min(len(os.sched_getaffinity(0)), len(logs), sum(sizes) // WORTH_A_THREAD))
    shares: list[list[Log]] = [[] for _ in range(parts)]
    done = 0
    for log, size in zip(logs, sizes, strict=True):
        shares[min(parts - 1, (done + size // 2) * parts // max(1, sum(sizes)))].append(log)
        done += size
    return shares


def _columns_of(logs: Sequence[Log]) -> Columns:
    columns = Columns(OPS_SCHEMA, Op, most_rows([path for _, _, path in logs], Op))
    decoder = ColumnDecoder(Op, columns.names)
    for client, life, path in logs:
        for piece in read_lines_with(decoder, path, PIECE_BYTES):
            columns.add_piece(piece, client=client, life=life)
    return columns


def most_rows(logs: Sequence[Path], record: type[msgspec.Struct]) -> int:
    """At most so many records are in these logs: a line has at least the names of the fields that it must have."""
    needed = [field.encode_name for field in msgspec.structs.fields(record) if field.required]
    least = sum(len(f'"{name}":0,') for name in needed) + len("{}")
    return sum(path.stat().st_size for path in logs if path.is_file()) // least
