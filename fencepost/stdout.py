"""The command's stdout: what cannot be written there is an error of fencepost's, raised once, whichever code writes."""

from __future__ import annotations

import select
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING

from fencepost.errors import BrokenEnvironmentError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class UnreadError(Exception):
    """The reader of stdout has gone (`fencepost list | head`)."""


def guard_stdout() -> None:
    """From now on writing to `sys.stdout` raises UnreadError or BrokenEnvironmentError instead of OSError. Characters
    that its encoding lacks are escaped."""
    stdout = sys.stdout
    if isinstance(stdout, TextIOWrapper):
        stdout.flush()
        sys.stdout = TextIOWrapper(
            BufferedWriter(_GuardedStdout(stdout.fileno(), "w", closefd=False)),
            stdout.encoding,
            "backslashreplace",
            line_buffering=stdout.line_buffering,
            write_through=stdout.write_through,
        )


class _GuardedStdout(FileIO):
    """After an error everything is discarded: it is known then, and the rest would only raise it again."""

    _has_failed = False

    def write(self, data: ReadableBuffer, /) -> int:
        if self._has_failed:
            return memoryview(data).nbytes
        try:
            while (written := super().write(data)) is None:  # another program has made it non-blocking, and it is full
                room = select.poll()
                room.register(self, select.POLLOUT)
                room.poll()
        except OSError as error:
            self._has_failed = True
            if isinstance(error, BrokenPipeError):
                raise UnreadError from None
            raise BrokenEnvironmentError(f"stdout cannot be written ({error.strerror}); send it elsewhere") from None
        return written
