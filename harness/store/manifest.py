"""`manifest.json`: what a run's files were when everything had ended, so that they vouch for each other.

A run whose config.json has schema 2 or more ends with a manifest. It names every log and every JSON file of the record,
with the number of its lines and bytes and its SHA-256. A run without one did not end as planned: its harness crashed,
was killed, or wrote into `failure.json` what broke. Such a run is never valid. Older runs have no manifest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from fencepost.errors import FencepostError, UsageError
from fencepost.files import on_disk, open_regular, unread
from harness.store.run_folder import RunFolder

FIRST_SCHEMA: Final = 2
"""From this schema of config.json on, a run that ended as planned has a manifest."""
SEALED: Final = "sealed.json"
"""Vouches for a run that is on (`harness.store.seal`)."""
PIECE_BYTES: Final = 1 << 20
"""How much of a file is read at a time."""
_LOG_FOLDERS: Final = ("clients", "held", "answers", "gaps", "beats", "wire")
"""Older runs have `held` and `answers`, which are not read any more."""
_DOCUMENTS: Final = (
    "config.json",
    "environment.json",
    "schedule.json",
    "played.json",
    "experiment.json",
    "timeline.json",
    "final.json",
    "requests.parquet",
    "connections.parquet",
)


class File(msgspec.Struct, frozen=True):
    """`name`: the path within the run's folder."""

    name: str
    lines: int
    bytes: int
    sha256: str


class FileSum:
    """What a file is, as far as it was read."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.lines = self.bytes = 0

    def add(self, piece: bytes) -> None:
        self._digest.update(piece)
        self.lines += piece.count(b"\n")
        self.bytes += len(piece)

    def file(self, name: str) -> File:
        return File(name, self.lines, self.bytes, self._digest.hexdigest())


class RunManifest(msgspec.Struct, frozen=True):
    files: tuple[File, ...]


@contextmanager
def recording(folder: RunFolder) -> Iterator[None]:
    """While this is entered, the run is recorded. Afterwards the folder has a manifest, or says what broke."""
    try:
        yield
    except BaseException as error:
        text = str(error) if isinstance(error, FencepostError) else f"{type(error).__name__}: {error}"
        with suppress(FencepostError):  # a full disk, perhaps: the missing manifest says the same
            folder.write_failure(text)
        raise
    from harness.store.wire_folder import keep_wire  # slow to import, and other commands do not come here

    keep_wire(folder)
    write_manifest(folder)


def write_manifest(folder: RunFolder) -> None:
    """Written when nothing writes to the record any longer. Raises BrokenEnvironmentError."""
    folder.write_manifest(RunManifest(tuple(_all_measured(folder.path, recorded(folder.path).values()))))
    with on_disk(folder.path):
        (folder.path / SEALED).unlink(missing_ok=True)


def check_manifest(folder: RunFolder, manifest: RunManifest, *, at_a_glance: bool = False) -> None:
    """Raises UsageError, naming the file, if one is missing, has changed, or was added since the manifest was
    written.

    `at_a_glance`: a file that still has its size, and that the file system has not seen change since the manifest was
    written, is not read."""
    written_ns = (folder.path / "manifest.json").stat().st_ctime_ns if at_a_glance else 0
    there = recorded(folder.path)
    listed = {file.name: file for file in manifest.files}
    for name in sorted(there.keys() - listed.keys()):
        raise UsageError(f"{folder.path / name} is not in manifest.json: it was added after the run; remove it")
    for name in sorted(listed.keys() - there.keys()):
        raise UsageError(f"{folder.path / name} is missing; manifest.json lists it: the record is damaged")
    read = [path for name, path in there.items() if not _is_untouched(path, listed[name], written_ns)]
    for found in _all_measured(folder.path, read) if read else ():
        file = listed[found.name]
        if found != file:
            what = f"it has {found.lines} lines, {found.bytes} bytes; the manifest says {file.lines}, {file.bytes}"
            if (found.lines, found.bytes) == (file.lines, file.bytes):
                what = "its content changed"
            raise UsageError(f"{folder.path / found.name} is not as the run left it: {what}; the record is damaged")


def _is_untouched(path: Path, file: File, since_ns: int) -> bool:
    try:
        status = path.stat()
    except OSError:  # a link to nowhere, say; reading it says what is wrong
        return False
    return status.st_size == file.bytes and status.st_ctime_ns <= since_ns


def broke_off(folder: RunFolder) -> tuple[str, ...]:
    """What a missing manifest means: why the run was aborted; nothing for a run of an older fencepost. Raises
    UsageError if the run cannot have ended without one."""
    if (error := folder.read_failure()) is not None:
        return (f"run aborted: {error}",)
    if folder.schema() < FIRST_SCHEMA:
        return ()
    if folder.read_final() is not None:
        raise UsageError(
            f"{folder.path / 'manifest.json'} is missing although the run had ended (final.json is there): it was "
            "deleted, or the harness was killed at the very end; nothing vouches for the record"
        )
    return ("run aborted: it has no manifest.json, so its harness crashed or was killed",)


def changed_since_judged(folder: RunFolder) -> bool:
    """Whether a file of the record was written, added or removed after the verdict was; for a run without a manifest,
    which shows damage only when it is judged."""
    judged_ns = (folder.path / "verdict.json").stat().st_mtime_ns
    folders = [path for path in (folder.clients, folder.gaps, folder.beats) if path.is_dir()]
    return any(path.stat().st_mtime_ns >= judged_ns for path in [*recorded(folder.path).values(), *folders])


def recorded(folder: Path) -> dict[str, Path]:
    """The files of the record, by their names within the folder."""
    names = [name for name in _names_in(folder) if name.endswith(".jsonl")]
    names += [f"{inner}/{name}" for inner in _LOG_FOLDERS for name in _names_in(folder / inner)]
    names += [name for name in _DOCUMENTS if (folder / name).exists()]
    return {name: folder / name for name in sorted(names)}


def _names_in(folder: Path) -> list[str]:
    """Of what is in there; nothing if there is no such folder. Raises UsageError if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unread(folder, error) from None


def _all_measured(folder: Path, paths: Iterable[Path]) -> list[File]:
    """Several files at a time: reading and hashing need no Python."""
    from concurrent.futures import ThreadPoolExecutor  # slow to import, and a list of runs rarely comes here

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(partial(_measured, folder), paths))


def _measured(folder: Path, path: Path) -> File:
    measured = FileSum()
    with open_regular(path) as file:
        while piece := file.read(PIECE_BYTES):
            measured.add(piece)
    return measured.file(path.relative_to(folder).as_posix())
