"""Append-only logs: writing and reading them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from fencepost.errors import UsageError
from fencepost.files import LINE_BYTES, NOT_JSON, on_disk, open_regular

_PIECE_BYTES: Final = 1 << 19
S = TypeVar("S", bound=msgspec.Struct)


class AppendLog:
    """An append-only log: one record, one line, one `write(2)`."""

    __slots__ = ("_encode", "_fd", "_path")

    def __init__(self, path: Path) -> None:
        with on_disk(path):
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._path = path
        self._encode = msgspec.json.Encoder().encode

    def append(self, record: msgspec.Struct) -> None:
        """Raises BrokenEnvironmentError when the disk is full; no partial line of this record remains then."""
        self._write(self._encode(record) + b"\n")

    def extend(self, records: Iterable[msgspec.Struct]) -> None:
        """Write many records at once; otherwise like `append`."""
        if lines := b"".join(self._encode(record) + b"\n" for record in records):
            self._write(lines)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> AppendLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        with on_disk(self._path):
            written = 0
            try:
                while written < len(line):
                    written += os.write(self._fd, line[written:])
            except OSError:
                if written:
                    os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
                raise


def read_lines(path: Path, kind: type[S]) -> Iterator[Sequence[S]]:
    """The log's records in pieces. A partial line at the very end (a crash during a write) is dropped.

    Raises UsageError, with the line's number, for any other line that is not a record, and for a file that cannot be
    read.
    """
    decoder = msgspec.json.Decoder(kind)
    done = kept = 0
    with open_regular(path) as file:
        room = bytearray(min(_PIECE_BYTES, os.fstat(file.fileno()).st_size + 1))
        while count := file.readinto(memoryview(room)[kept:]):
            end = room.rfind(b"\n", kept, kept + count)
            kept += count
            if end >= 0:
                records = _decode(path, decoder, bytes(memoryview(room)[:end]), done)
                done += len(records)
                yield records
                room[: kept - end - 1] = room[end + 1 : kept]
                kept -= end + 1
            elif kept > LINE_BYTES:
                raise UsageError(f"{path} line {done + 1} is longer than {LINE_BYTES >> 20} MB: the file is damaged")
            if kept == len(room):
                room += bytes(_PIECE_BYTES)
    if kept:
        try:
            yield decoder.decode_lines(bytes(room[:kept]))
        except NOT_JSON:
            return


def _decode(path: Path, decoder: msgspec.json.Decoder[S], lines: bytes, done: int) -> Sequence[S]:
    try:
        return decoder.decode_lines(lines)
    except NOT_JSON:
        for number, line in enumerate(lines.split(b"\n"), done + 1):
            try:
                if line:
                    decoder.decode(line)
            except NOT_JSON as error:
                is_json = isinstance(error, msgspec.ValidationError)
                origin = "another version of fencepost wrote it" if is_json else "not from fencepost"
                raise UsageError(
                    f"{path} line {number} is not a valid record ({error}): the file is damaged, or {origin}"
                ) from None
        raise
