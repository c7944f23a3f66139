"""Many logs as one table: read by as many processes as there are processors, if they are long enough to be worth it."""

from __future__ import annotations

import fcntl
import os
import selectors
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pandas as pd

from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.history import Op
from harness.store.columns import OPS_SCHEMA, Columns
from harness.store.decoding import Header, pieces, receive
from harness.store.pieces import Array, Names, Piece

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
        _add(columns, logs, pieces([path for _, _, path in logs], Op))
        return columns.frame()
    with ExitStack() as stack:
        readers = [stack.enter_context(_reader(share)) for share in shares]
        received = _received(readers)
    for share, own in zip(shares, received, strict=True):
        _add(columns, share, own)
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


def _add(columns: Columns, logs: Sequence[Log], found: Iterable[tuple[Header, Piece]]) -> None:
    """Add the pieces of one reader, whose names have numbers of its own."""
    numbers: dict[str, list[int]] = {name: [-1] for name in columns.names}
    for header, piece in found:
        for name, new in header.new.items():
            numbers[name] += [columns.names[name][one] for one in new]
        for name in piece.keys() & numbers.keys():
            piece[name] = _renumbered(piece[name], numbers[name], columns.names[name])
        client, life, _ = logs[header.log]
        columns.add_piece(header.rows, piece, client=client, life=life)


def _renumbered(codes: Array, numbers: Sequence[int], names: Names) -> Array:
    """`numbers`: that of the missing name, and then of each name in the reader's order."""
    if numbers[-1] == len(numbers) - 2 and list(numbers) == list(range(-1, len(numbers) - 1)):
        return codes  # as a rule: all logs have the same few names
    return np.array(numbers, np.min_scalar_type(-len(names)))[codes + np.int32(1)]


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


def _received(readers: Sequence[subprocess.Popen[bytes]]) -> list[list[tuple[Header, Piece]]]:
    """The pieces of each reader, which all work at the same time."""
    found: list[list[tuple[Header, Piece]]] = [[] for _ in readers]
    with selectors.DefaultSelector() as selector:
        for reader, own in zip(readers, found, strict=True):
            assert reader.stdout is not None
            selector.register(reader.stdout, selectors.EVENT_READ, (reader, own))
        while selector.get_map():
            for key, _ in selector.select():
                reader, own = key.data
                try:
                    piece = receive(reader.stdout)
                except EOFError:
                    piece = None
                if piece is not None:
                    if piece[0].error is not None:
                        raise UsageError(piece[0].error)
                    own.append(piece)
                    continue
                selector.unregister(reader.stdout)
                if (status := reader.wait()) != 0:
                    raise BrokenEnvironmentError(f"a process that reads logs ended too early (exit status {status})")
    return found
