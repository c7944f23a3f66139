"""The messages between the command and the process that makes a run in a sandbox: one JSON line per message."""

from __future__ import annotations

import os
from typing import Final, Literal, TypeVar

import msgspec

from fencepost.errors import BrokenEnvironmentError, FencepostError, InternalError, UsageError
from harness.run.snapshot import Snapshot

T = TypeVar("T")


class Shown(msgspec.Struct, frozen=True, tag=True):
    """The newest snapshot. One may be left out when the reader is slow."""

    snapshot: Snapshot


class Said(msgspec.Struct, frozen=True, tag=True):
    """A line to print."""

    line: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The run was aborted by this error; nothing follows. `kind`: the branch of `fencepost.errors`."""

    kind: Literal["usage", "environment", "internal"]
    text: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: FencepostError) -> Failed:
        kind = next((kind for kind, branch in _BRANCHES.items() if isinstance(error, branch)), "internal")
        return cls(kind, str(error), tuple(getattr(error, "__notes__", ())))  # type: ignore[arg-type]

    def error(self) -> FencepostError:
        """The error again."""
        error = _BRANCHES[self.kind](self.text)
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


Message = Shown | Said | Failed | Finished


class Stop(msgspec.Struct, frozen=True):
    """The only thing that the process inside is told after its job. `enough`: what was recorded is all that is wanted;
    `interrupted`: the user asked to stop."""

    why: Literal["enough", "interrupted"]


_BRANCHES: Final[dict[str, type[FencepostError]]] = {
    "usage": UsageError,
    "environment": BrokenEnvironmentError,
    "internal": InternalError,
}
