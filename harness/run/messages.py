"""The messages between the command and the process that makes a run in a sandbox: one JSON line per message."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import Final, Literal, TypeVar

import msgspec

from fencepost.errors import BrokenEnvironmentError, FencepostError, InternalError, LackingMachineError, UsageError
from harness.run.snapshot import Snapshot

T = TypeVar("T")


class Shown(msgspec.Struct, frozen=True, tag=True):
    """The newest snapshot. One may be left out when the reader is slow."""

    snapshot: Snapshot


class Said(msgspec.Struct, frozen=True, tag=True):
    """A line to print."""

    line: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The run was aborted by this error; nothing follows. `kind`: that of its class (`fencepost.errors`)."""

    kind: str
    text: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: FencepostError) -> Failed:
        return cls(error.kind, str(error), tuple(getattr(error, "__notes__", ())))

    def error(self) -> FencepostError:
        """The error again."""
        error = _ERRORS[self.kind](self.text)
        for note in self.notes:
            error.add_note(note)
        return error


class Finished(msgspec.Struct, frozen=True, tag=True):
    """The run has ended and everything was removed; no message follows."""


def encode(what: object) -> bytes:
    """One line, also for what has paths in it."""
    return msgspec.json.encode(what, enc_hook=os.fspath) + b"\n"


def decode(line: bytes, kind: type[T]) -> T:
    return msgspec.json.decode(line, type=kind, dec_hook=lambda kind, text: kind(text))


def tell(descriptor: int, what: object) -> None:
    """Send it to a process, which may be gone: what it sent last says why."""
    left = encode(what)
    with suppress(BrokenPipeError):
        while left:
            left = left[os.write(descriptor, left) :]


class Lines:
    """Whole lines from a pipe. `is_over`: its other end is closed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._rest = b""
        self.is_over = False

    def arrived(self, within_ms: float) -> list[bytes]:
        if not self._poll.poll(within_ms):
            return []
        data = os.read(self._descriptor, 1 << 16)
        self.is_over = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


def last_words(printed: int) -> str:
    """`: ` and the last line that a process printed to this file in memory; empty if there is none."""
    lines = os.pread(printed, 1 << 16, 0).decode(errors="replace").strip().splitlines()
    return f": {lines[-1]}" if lines else ""


Message = Shown | Said | Failed | Finished


class Stop(msgspec.Struct, frozen=True):
    """The only thing that the process inside is told after its job. `enough`: what was recorded is all that is wanted;
    `interrupted`: the user asked to stop."""

    why: Literal["enough", "interrupted"]


_ERRORS: Final[dict[str, type[FencepostError]]] = {
    each.kind: each for each in (UsageError, LackingMachineError, BrokenEnvironmentError, InternalError)
}
