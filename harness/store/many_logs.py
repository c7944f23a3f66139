"""Many logs as one table: read by as many processes as there are processors, if they are long enough to be worth it."""

from __future__ import annotations

import fcntl
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pandas as pd

from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.history import Op
from harness.store.columns import OPS_SCHEMA, Columns
from harness.store.decoding import Header, pieces, receive
from harness.store.pieces import Piece

WORTH_A_PROCESS: Final = 1 << 24
"""Bytes of logs. Decoding them takes about as long as starting a process for it."""
_PIPE_BYTES: Final = 1 << 20
_BOOT: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); from harness.store.decoding import main; main()"
)

Log = tuple[str, int, Path]
"""Client, life and where the log is."""


def read_ops(logs: Sequence[Log]) -> pd.DataFrame:
    """The operations of these logs, one log after the other. Raises UsageError for one that is damaged."""
    shares = _shares(logs)
    columns = Columns(OPS_SCHEMA, Op)
    if len(shares) < 2:
        for header, piece in pieces([path for _, _, path in logs], Op):
            _add(columns, logs, header, piece)
        return columns.frame()
    with ExitStack() as stack:
        received = _received({stack.enter_context(_reader(share)): share for share in shares})
    for own in received:
        columns.add_all(own)
    return columns.frame()


def _shares(logs: Sequence[Log]) -> list[list[Log]]:
    """The logs, in order, in parts of about the same number of bytes: as many as there are processors, or fewer if they
    are short."""
    sizes = [path.stat().st_size if path.is_file() else 0 for _, _, path in logs]
    parts = max(1, min(len(os.sched_getaffinity(0)), len(logs), sum(sizes) // WORTH_A_PROCESS))
    shares: list[list[Log]] = [[] for _ in range(parts)]
    done = 0
    for log, size in zip(logs, sizes, strict=True):
        shares[min(parts - 1, (done + size // 2) * parts // max(1, sum(sizes)))].append(log)
        done += size
    return [share for share in shares if share]


def _add(columns: Columns, logs: Sequence[Log], header: Header, piece: Piece) -> None:
    """Add a piece, whose names its reader numbers as these columns do: in the order of their appearance."""
    for name, new in header.new.items():
        for one in new:
            columns.names[name][one]
    client, life, _ = logs[header.log]
    columns.add_piece(header.rows, piece, client=client, life=life)


@contextmanager
def _reader(logs: Sequence[Log]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that decodes these logs; afterwards it has ended."""
    path = msgspec.json.encode(sys.path).decode()
    command = [sys.executable, "-c", _BOOT, path, Op.__name__, *(str(log) for _, _, log in logs)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    try:
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        yield process
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def _received(readers: Mapping[subprocess.Popen[bytes], Sequence[Log]]) -> list[Columns]:
    """The columns of each reader's logs. The readers all work at the same time."""
    found = [Columns(OPS_SCHEMA, Op) for _ in readers]
    with selectors.DefaultSelector() as selector:
        for (reader, logs), columns in zip(readers.items(), found, strict=True):
            assert reader.stdout is not None
            selector.register(reader.stdout, selectors.EVENT_READ, (reader, logs, columns))
        while selector.get_map():
            for key, _ in selector.select():
                reader, logs, columns = key.data
                try:
                    received = receive(reader.stdout)
                except EOFError:
                    received = None
                if received is not None:
                    if received[0].error is not None:
                        raise UsageError(received[0].error)
                    _add(columns, logs, *received)
                    continue
                selector.unregister(reader.stdout)
                if (status := reader.wait()) != 0:
                    raise BrokenEnvironmentError(f"a process that reads logs ended too early (exit status {status})")
    return found
