"""A client's own logs: one operation, one line, one `write(2)`, before the next step begins."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns

import msgspec

from fencepost.errors import BrokenEnvironmentError
from workloads.secrecy import hidden


class Recorder:
    """Appends records (operations, as a rule) to a file. The page cache keeps a written line when
    any process is killed.

    `secret`: what no line may contain, such as a password in the error message of a library. `before`: called with the
    time just before an operation is written.
    """

    __slots__ = ("_before", "_encode", "_fd", "_secret", "ops")

    def __init__(
        self,
        path: Path,
        secret: str | None = None,
        before: Callable[[int], object] | None = None,
    ) -> None:
        self._fd = _open(path)
        self._before = before
        self._secret = secret
        self._encode = msgspec.json.Encoder().encode
        self.ops = 0

    def __call__(self, op: msgspec.Struct) -> None:
        """Write one line. Raises BrokenEnvironmentError when the disk is full: an operation that cannot be recorded
        must be the last one."""
        line = hidden(self._encode(op), self._secret) + b"\n"
        if self._before is not None:
            self._before(monotonic_ns())
        _append(self._fd, line)
        self.ops += 1

    def close(self) -> None:
        os.close(self._fd)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _append(fd: int, lines: bytes) -> None:
    try:
        written = os.write(fd, lines)
    except OSError as error:
        raise BrokenEnvironmentError(
            f"the history cannot be written: {os.strerror(error.errno or errno.EIO)}"
        ) from error
    if written != len(lines):
        raise BrokenEnvironmentError("the history cannot be written: no space left on the device")
