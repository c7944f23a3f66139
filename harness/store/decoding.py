"""A process that decodes logs for another one: `python -m harness.store.decoding KIND LOG…`, columns to stdout.

Decoding is most of the time that reading a history takes, and Python decodes on one processor at a time. For every
piece of a log there is a `Header`, as msgpack after its length in eight bytes, and then the bytes of its columns. This
module imports no table library, so that the process is there in a tenth of a second.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import numpy as np

from fencepost import history
from fencepost.errors import UsageError
from harness.store.append_log import read_lines_with
from harness.store.pieces import Names, Piece, RowDecoder, kinds_of, piece_of

_LENGTH_BYTES: Final = 8


class Header(msgspec.Struct, array_like=True):
    """`log`: which one, from 0. `columns`: those of the piece that are not missing, with the type of their numbers.
    `new`: names that appear for the first time, in the order of their numbers. `error`: the log is damaged, and nothing
    follows."""

    log: int = 0
    rows: int = 0
    columns: dict[str, str] = {}
    new: dict[str, list[str]] = {}
    error: str | None = None


def pieces(logs: list[Path], record: type[msgspec.Struct]) -> Iterator[tuple[Header, Piece]]:
    """The pieces of the logs. Raises UsageError for a log that is damaged."""
    kinds, decoder = kinds_of(record), RowDecoder(record)
    names = {name: Names() for name, kind in kinds.items() if kind == "name"}
    told = dict.fromkeys(names, 0)
    for number, log in enumerate(logs):
        for records in read_lines_with(decoder, log):
            if not records:
                continue
            piece = piece_of(records, kinds, names)
            new = {name: own.listed[told[name] :] for name, own in names.items() if len(own) - 1 > told[name]}
            told |= {name: told[name] + len(own) for name, own in new.items()}
            yield Header(number, len(records), {name: own.dtype.str for name, own in piece.items()}, new), piece


def send(out: BinaryIO, header: Header, piece: Piece) -> None:
    packed = msgspec.msgpack.encode(header)
    out.write(len(packed).to_bytes(_LENGTH_BYTES, "little") + packed)
    for values in piece.values():
        out.write(values.data)
    out.flush()


def receive(source: FileIO) -> tuple[Header, Piece] | None:
    """The next piece, from an unbuffered pipe; None after the last one. Raises EOFError if it is cut short."""
    length = bytearray(_LENGTH_BYTES)
    if not _fill(source, length):
        return None
    packed = bytearray(int.from_bytes(length, "little"))
    _must_fill(source, packed)
    header, piece = msgspec.msgpack.decode(packed, type=Header), Piece()
    for name, kind in header.columns.items():
        piece[name] = values = np.empty(header.rows, np.dtype(kind))
        _must_fill(source, values.data.cast("B"))
    return header, piece


def _fill(source: FileIO, room: bytearray | memoryview) -> bool:
    """Fill it; False if there is nothing any more. Raises EOFError if there is too little."""
    left = memoryview(room)
    while left and (count := source.readinto(left)):
        left = left[count:]
    if left and len(left) < len(room):
        raise EOFError
    return not left


def _must_fill(source: FileIO, room: bytearray | memoryview) -> None:
    if not _fill(source, room):
        raise EOFError


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process decides, and reads no more
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    record = getattr(history, sys.argv[1])
    with os.fdopen(os.dup(1), "wb") as out:
        try:
            for header, piece in pieces([Path(name) for name in sys.argv[2:]], record):
                send(out, header, piece)
        except UsageError as error:
            send(out, Header(error=str(error)), {})


if __name__ == "__main__":
    main()
