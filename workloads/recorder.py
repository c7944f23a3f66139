"""A client's own logs: one operation, one line, one `write(2)`, before the next step begins; and, where its lock shows
them, what the nodes answered, right before the operation that they were asked for."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic_ns
from typing import Final

import msgspec

from fencepost.errors import BrokenEnvironmentError
from fencepost.history import Round
from workloads.secrecy import hidden

_NOTHING_DONE: Final = ("nil", "0")


class Recorder:
    """Appends records (operations, as a rule) to a file. The page cache keeps a written line through a SIGKILL of
    anybody.

    `answers`: the file for what nodes answered, made when there is something to write; None: that is not kept.
    `secret`: what no line may contain, such as a password in the error message of a library. `before`: called with the
    time just before an operation is written.
    """

    __slots__ = ("_answers", "_answers_fd", "_before", "_encode", "_encode_lines", "_fd", "_secret", "ops")

    def __init__(
        self,
        path: Path,
        answers: Path | None = None,
        secret: str | None = None,
        before: Callable[[int], object] | None = None,
    ) -> None:
        self._fd = _open(path)
        self._before = before
        self._answers = answers
        self._secret = secret
        self._answers_fd = -1
        encoder = msgspec.json.Encoder()
        self._encode, self._encode_lines = encoder.encode, encoder.encode_lines
        self.ops = 0

    def __call__(self, op: msgspec.Struct) -> None:
        """Write one line. Raises BrokenEnvironmentError when the disk is full: an operation that cannot be recorded
        must be the last one."""
        line = hidden(self._encode(op), self._secret) + b"\n"
        if self._before is not None:
            self._before(monotonic_ns())
        _append(self._fd, line)
        self.ops += 1

    def answered(self, rounds: Sequence[Round]) -> None:
        """Write a line a round, all at once; otherwise like an operation. Rounds in which no node did anything are left
        out; under contention that is nearly all of them."""
        if self._answers is None or not (rounds := _of_interest(rounds)):
            return
        if self._answers_fd < 0:
            self._answers_fd = _open(self._answers)
        _append(self._answers_fd, hidden(self._encode_lines(rounds), self._secret))

    def close(self) -> None:
        os.close(self._fd)
        if self._answers_fd >= 0:
            os.close(self._answers_fd)


def _of_interest(rounds: Sequence[Round]) -> list[Round]:
    """The rounds in which a node did something, or may have; and the tries that were undone in one of these."""
    kept: list[Round] = []
    for one in reversed(rounds):
        undone = bool(kept) and kept[-1].f == "undo" and kept[-1].value == one.value
        if undone or any(reply.said not in _NOTHING_DONE for reply in one.replies):
            kept.append(one)
    return kept[::-1]


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
