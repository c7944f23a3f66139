"""The proxy's record of the links while a run is on.

The proxy appends to two files in `wire/` (`fencepost/setup/toxiproxy/upstream/wire.go`): `wire.events` has a record of
20 bytes for each moment, `wire.bytes` what came from clients and nodes, in the same order; the ends of both are in
`wire.tail` first. A SIGKILL costs at most the record under way.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost.errors import UsageError
from fencepost.files import kind_of, open_regular
from harness.history.groups import Codes, Ints

EVENTS: Final = "wire.events"
BYTES: Final = "wire.bytes"
TAIL: Final = "wire.tail"
TAIL_HEAD: Final = 4096
TAIL_EVENTS: Final = 20 * 3200
"""The tail begins with four numbers: where the tail of the events begins in its stream, and its length; the same of the
bytes. Behind `TAIL_HEAD` bytes are the events, and `TAIL_EVENTS` behind these the bytes."""
_TAIL_HEAD: Final = struct.Struct("<QQQQ")
EVENT: Final = np.dtype([("at_ns", "<i8"), ("connection", "<u4"), ("length", "<u4"), ("kind", "<u4")])
(
    OPENED,
    FROM_CLIENT,
    TO_NODE,
    FROM_NODE,
    TO_CLIENT,
    NOT_TO_NODE,
    NOT_TO_CLIENT,
    CLIENT_CLOSED,
    NODE_CLOSED,
    UNREACHED,
    CUT,
    LIMIT_REACHED,
) = range(12)
Bytes = npt.NDArray[np.uint8]
_CARRY: Final = (OPENED, FROM_CLIENT, FROM_NODE, UNREACHED)
"""The kinds of records that have bytes in the other file."""


@dataclass(frozen=True, slots=True)
class WireRows:
    """A row a moment, in the order of time. `chunk`: which of the distinct `chunks` it carries; -1 if none."""

    at_ns: Ints
    connection: Codes
    length: Codes
    kind: Codes
    chunk: Codes
    chunks: pa.LargeBinaryArray


def read_record(folder: Path) -> WireRows:
    """All that the proxy recorded. What was under way at a SIGKILL is left out. A run that ended before its proxy began
    to record has no such files. Raises UsageError for files that the proxy cannot have written."""
    raw, text = _streams(folder)
    events = np.frombuffer(raw, EVENT, count=len(raw) // EVENT.itemsize)
    kind = np.minimum(events["kind"], LIMIT_REACHED + 1).astype(np.uint8)
    carrying = np.flatnonzero(np.isin(np.arange(LIMIT_REACHED + 2), _CARRY)[kind])
    edges = np.append(0, np.cumsum(events["length"][carrying], dtype=np.int64))
    fitting = int(np.searchsorted(edges, len(text), "right")) - 1
    whole = int(carrying[fitting]) if fitting < len(carrying) else len(events)
    if whole < len(events) - 1:
        raise UsageError(f"{folder / BYTES} is damaged: it has {len(text)} bytes, but {EVENTS} lists {edges[-1]}")
    at_ns, connection, length = (events[name][:whole].copy() for name in ("at_ns", "connection", "length"))
    if (kind[:whole] > LIMIT_REACHED).any() or (at_ns[1:] < at_ns[:-1]).any():
        raise UsageError(f"{folder / EVENTS} is damaged: its records are not in the order of their times")
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(text)]
    chunks = pa.LargeBinaryArray.from_buffers(pa.large_binary(), fitting, buffers).dictionary_encode()
    chunk = np.full(whole, -1, np.int32)
    chunk[carrying[:fitting]] = chunks.indices.to_numpy()
    return WireRows(at_ns, connection, length, kind[:whole], chunk, chunks.dictionary)


def _streams(folder: Path) -> list[Bytes]:
    """All that the proxy recorded: what its files have, and their tails. While the proxy writes, tails move into the
    files, so these are read after them, and all is read again if the tails began elsewhere meanwhile."""
    while True:
        tail = _read_bytes(folder / TAIL)
        files = [_read_bytes(folder / name) for name in (EVENTS, BYTES)]
        if not len(tail):
            return files
        try:
            head = _TAIL_HEAD.unpack_from(tail.data)
            if _TAIL_HEAD.unpack_from(_read_bytes(folder / TAIL).data)[::2] == head[::2]:
                break
        except struct.error:
            raise UsageError(f"{folder / TAIL} is damaged: it is too short") from None
    tails = tail[TAIL_HEAD : TAIL_HEAD + TAIL_EVENTS], tail[TAIL_HEAD + TAIL_EVENTS :]
    for number, (file, its_tail) in enumerate(zip(files, tails, strict=True)):
        begin, length = head[2 * number : 2 * number + 2]
        if begin > len(file) or length > len(its_tail):
            raise UsageError(f"{folder / TAIL} is damaged: it does not continue {(EVENTS, BYTES)[number]}")
        if begin + length > len(file):  # otherwise it has been moved
            files[number] = np.concatenate([file[:begin], its_tail[:length]])
    return files


def _read_bytes(path: Path) -> Bytes:
    """What the file has. As an array, because large ones of these have huge pages."""
    if kind_of(path) is None:
        return np.zeros(0, np.uint8)
    with open_regular(path) as file:
        text = np.empty(os.fstat(file.fileno()).st_size, np.uint8)
        size = 0
        while size < len(text) and (more := file.readinto(text[size:].data)):
            size += more
        return text[:size]
