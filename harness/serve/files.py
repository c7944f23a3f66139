"""The files of a run, and nothing else: no path leads out of its folder, and no link is followed."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO


@dataclass(frozen=True, slots=True)
class RunFile:
    """`name`: its path below the run's folder."""

    name: str
    bytes: int


def run_named(results: Path, name: str) -> Path | None:
    """The run's folder; None if there is none of this name."""
    path = results / name
    return path if _is_one_name(name) and not path.is_symlink() and (path / "config.json").exists() else None


def files_of(folder: Path) -> Sequence[RunFile]:
    """All regular files below it, by name; links are left out."""
    found = [path for path in folder.rglob("*") if _is_inside(folder, path.relative_to(folder)) and path.is_file()]
    return sorted((RunFile(path.relative_to(folder).as_posix(), path.stat().st_size) for path in found), key=_order)


def file_named(folder: Path, name: str) -> Path | None:
    """A regular file below the folder; None if the name is of anything else."""
    parts = PurePosixPath(name).parts
    if not parts or not all(map(_is_one_name, parts)) or not _is_inside(folder, Path(*parts)):
        return None
    path = folder.joinpath(*parts)
    return path if stat.S_ISREG(path.stat().st_mode) else None


def write_zip(folder: Path, file: IO[bytes]) -> None:
    """All of the run's files, in a folder of its name."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for each in files_of(folder):
            archive.write(folder / each.name, f"{folder.name}/{each.name}")


def _is_one_name(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _is_inside(folder: Path, below: Path) -> bool:
    """Whether it is there and no part of the way is a link."""
    path = folder
    for part in below.parts:
        path = path / part
        try:
            if stat.S_ISLNK(path.lstat().st_mode):
                return False
        except (OSError, ValueError):
            return False
    return True


def _order(file: RunFile) -> tuple[bool, str]:
    """Documents of the run itself before folders of logs."""
    return "/" in file.name, file.name
