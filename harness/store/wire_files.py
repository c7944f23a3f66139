"""The proxy's record of the links while a run is on.

The proxy appends to two files in `wire/` (`fencepost/setup/toxiproxy/upstream/wire.go`): `wire.events` has a record of
20 bytes for each moment, `wire.bytes` what came from clients and nodes, in the same order; the ends of both are in
`wire.tail` first. A SIGKILL costs at most the record under way.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final

import numpy as np

from fencepost.errors import UsageError
from fencepost.files import kind_of, open_regular

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
    LIMIT_REACHED,
) = range(11)
_CARRY: Final = (OPENED, FROM_CLIENT, FROM_NODE, UNREACHED)
"""The kinds of records that have bytes in the other file."""


def read_events(folder: Path) -> tuple[Any, Any, bytes]:
    """The records, where the bytes of each begin, and the bytes. What was under way at a SIGKILL is left out. A run
    that ended before its proxy began to record has no such files."""
    raw, text = _streams(folder)
    events = np.frombuffer(raw, EVENT, count=len(raw) // EVENT.itemsize)
    carried = np.where(np.isin(events["kind"], _CARRY), events["length"], 0).astype(np.int64)
    ends = np.cumsum(carried)
    whole = int(np.searchsorted(ends, len(text), "right"))
    if whole < len(events) - 1:
        raise UsageError(f"{folder / BYTES} is damaged: it has {len(text)} bytes, and {EVENTS} tells of {ends[-1]}")
    events = events[:whole]
    if (events["kind"] > LIMIT_REACHED).any() or (np.diff(events["at_ns"]) < 0).any():
        raise UsageError(f"{folder / EVENTS} is damaged: its records are not in the order of their times")
    return events, (ends - carried)[:whole], text


def _streams(folder: Path) -> list[bytes]:
    """All that the proxy recorded: what its files have, and their tails. While the proxy writes, tails move into the
    files, so these are read after them, and all is read again if the tails began elsewhere meanwhile."""
    while True:
        tail = _read_bytes(folder / TAIL)
        files = [_read_bytes(folder / name) for name in (EVENTS, BYTES)]
        if not tail:
            return files
        try:
            head = _TAIL_HEAD.unpack_from(tail)
            if _TAIL_HEAD.unpack_from(_read_bytes(folder / TAIL))[::2] == head[::2]:
                break
        except struct.error:
            raise UsageError(f"{folder / TAIL} is damaged: it is too short") from None
    tails = tail[TAIL_HEAD : TAIL_HEAD + TAIL_EVENTS], tail[TAIL_HEAD + TAIL_EVENTS :]
    for number, (file, its_tail) in enumerate(zip(files, tails, strict=True)):
        begin, length = head[2 * number : 2 * number + 2]
        if begin > len(file) or length > len(its_tail):
            raise UsageError(f"{folder / TAIL} is damaged: it does not continue {(EVENTS, BYTES)[number]}")
        if begin + length > len(file):  # otherwise it has been moved
            files[number] = file[:begin] + its_tail[:length]
    return files


def _read_bytes(path: Path) -> bytes:
    if kind_of(path) is None:
        return b""
    with open_regular(path) as file:
        return file.readall()
