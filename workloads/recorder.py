"""A client's own logs: one operation, one line, one `write(2)`, before the next step begins."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec

from fencepost.errors import BrokenEnvironmentError


class Recorder:
    """Appends records (operations, as a rule) to a file. The page cache keeps a written line through a SIGKILL of
    anybody."""

    __slots__ = ("_encode", "_fd", "ops")

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._encode = msgspec.json.Encoder().encode
        self.ops = 0

    def __call__(self, op: msgspec.Struct) -> None:
        """Write one line. Raises BrokenEnvironmentError when the disk is full: an operation that cannot be recorded
        must be the last one."""
        line = self._encode(op) + b"\n"
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise BrokenEnvironmentError(
                f"the history cannot be written: {os.strerror(error.errno or errno.EIO)}"
            ) from error
        if written != len(line):
            raise BrokenEnvironmentError("the history cannot be written: no space left on the device")
        self.ops += 1

    def close(self) -> None:
        os.close(self._fd)
