"""The file of `--json FILE`, which tells an error too; `-` is standard output, on which nothing else is then. This
module imports nothing that judges, so that bad input is told at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from fencepost.boundary import say
from fencepost.errors import FencepostError, UsageError
from fencepost.files import kind_of, on_disk, write_whole

RESULT_SCHEMA: Final = 2
"""Raised when a field changes its meaning or goes; new fields do not raise it. 1: `require` named one property."""


STANDARD_OUTPUT: Final = Path("-")


class _Error(msgspec.Struct, frozen=True):
    kind: str
    text: str


class NoResult(msgspec.Struct, frozen=True, kw_only=True):
    """There is no verdict, because of this error. Its `kind` is that of the error's class (`fencepost.errors`)."""

    schema: int = RESULT_SCHEMA
    verdict: None = None
    error: _Error


def write_result(path: Path, result: msgspec.Struct) -> None:
    """Raises BrokenEnvironmentError if it cannot be written."""
    document = msgspec.json.format(msgspec.json.encode(result), indent=2)
    if path == STANDARD_OUTPUT:
        say(f"{document.decode()}\n")
        return
    with on_disk(path):
        write_whole(path, document)


@contextmanager
def errors_written(path: Path | None) -> Iterator[None]:
    """An error that ends the block is written there as well. What was there before is removed first, so the file is
    always of this call. Raises UsageError for a path that cannot be written."""
    if path is None:
        yield
        return
    is_file = path != STANDARD_OUTPUT
    if is_file and (kind_of(path.parent) != "folder" or kind_of(path) not in ("file", None)):
        raise UsageError(f"--json {path}: there is no such folder, or something else is there")
    if is_file:
        with on_disk(path):
            path.unlink(missing_ok=True)
    try:
        yield
    except FencepostError as error:
        write_result(path, NoResult(error=_Error(error.kind, str(error))))
        raise
