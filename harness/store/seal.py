"""`sealed.json`: what a run's files were a moment ago, renewed while the run is on.

A run that is killed leaves no manifest. What it had recorded until the last renewal is sealed: logs only grow, so the
seal holds the SHA-256 of as much of each as there was then. Only what came later may have changed unnoticed. The
manifest of a run that ends as planned takes its place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from fencepost.errors import UsageError
from fencepost.files import kind_of, open_regular, read_json, write_whole
from harness.store.manifest import PIECE_BYTES, SEALED, File, FileSum, RunManifest, recorded
from harness.store.run_folder import RunFolder

_REWRITTEN: Final = frozenset({"timeline.json", "played.json", "final.json", "wire/wire.tail"})
"""What is written anew while the run is on. It may be newer than the seal."""


class Seal:
    """Renews the seal of a run. What has been read once is not read again."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder.path
        self._measured: dict[str, _Growing] = {}

    def renew(self) -> None:
        """Raises OSError or UsageError if a file cannot be read or written; the seal from before still holds."""
        has_grown = False
        for name, path in recorded(self._folder).items():
            if name not in _REWRITTEN:
                has_grown |= self._measured.setdefault(name, _Growing()).go_on(path)
        if has_grown:
            files = tuple(measured.file(name) for name, measured in self._measured.items())
            write_whole(self._folder / SEALED, msgspec.json.encode(RunManifest(files)))


class _Growing(FileSum):
    """The beginning of a file. Of a log only whole lines count: one that does not fit on the disk is taken back."""

    def go_on(self, path: Path) -> bool:
        """Read what has come since; whether that was anything."""
        before = self.bytes
        if path.stat().st_size > before:
            with open_regular(path) as file:
                file.seek(before)
                while piece := file.read(PIECE_BYTES):
                    is_log = path.suffix == ".jsonl"
                    self.add(piece[: piece.rfind(b"\n") + 1] if is_log else piece)
                    file.seek(self.bytes)
                    if is_log and not piece.endswith(b"\n") and len(piece) < PIECE_BYTES:
                        break
        return self.bytes > before


def check_seal(folder: RunFolder) -> bool:
    """Whether the run was sealed. Raises UsageError, naming the file, if one is missing or no longer begins as it did
    when it was sealed."""
    if kind_of(folder.path / SEALED) is None:
        return False
    there = recorded(folder.path)
    for file in read_json(folder.path / SEALED, RunManifest).files:
        if file.name not in there:
            raise UsageError(f"{folder.path / file.name} is missing; {SEALED} lists it: the record is damaged")
        if _beginning(there[file.name], file) != file:
            raise UsageError(
                f"{there[file.name]} does not begin with the {file.lines} lines and {file.bytes} bytes that it had "
                "while the run was on; the record is damaged"
            )
    return True


def _beginning(path: Path, sealed: File) -> File:
    """As much of the file as was sealed."""
    measured, left = FileSum(), sealed.bytes
    with open_regular(path) as file:
        while left > 0 and (piece := file.read(min(PIECE_BYTES, left))):
            measured.add(piece)
            left -= len(piece)
    return measured.file(sealed.name)
