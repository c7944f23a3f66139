"""What a server keeps on its disk, and what is left of it after damage.

After Jepsen's nemesis that truncates files: only the largest file is cut, which is where the keys are. Bits are not
flipped: an append-only file has no checksum, so a key could come back with another owner, or never expire, and no lock
could be blamed or acquitted for that. File names are relative to the server's data folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

PARTS: Final = 1_000_000
"""Places in a file are in millionths of its length."""


class DataFiles(NamedTuple):
    """What a kind of server keeps. `is_data`: whether a file of this name holds keys. `empty`: what is in a file of
    this name that holds none."""

    is_data: Callable[[str], bool]
    empty: Callable[[str], bytes]


class Storage(Protocol):
    """The files of a server that is down."""

    def read(self) -> Mapping[str, bytes]: ...

    def write(self, files: Mapping[str, bytes]) -> None:
        """Overwrite these, which there are, and no others."""
        ...


class FolderStorage:
    """A folder of this host."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Mapping[str, bytes]:
        files = (path for path in self._folder.rglob("*") if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(self._folder)): path.read_bytes() for path in files}

    def write(self, files: Mapping[str, bytes]) -> None:
        for name, content in files.items():
            (self._folder / name).write_bytes(content)


def truncate(storage: Storage, data: DataFiles, place: int) -> str:
    """Cut the largest file with keys at this place, and say how: `dump.rdb cut from 3,012 to 1,200 bytes`. Empty if no
    key is kept."""
    files = {name: content for name, content in storage.read().items() if content and data.is_data(name)}
    if not files:
        return ""
    name = max(files, key=lambda each: len(files[each]))
    left = files[name][: place * len(files[name]) // PARTS]
    storage.write({name: left})
    return f"{Path(name).name} cut from {len(files[name]):,} to {len(left):,} bytes"


def forget(storage: Storage, data: DataFiles) -> None:
    """Let every file with keys hold none."""
    storage.write({name: data.empty(name) for name in storage.read() if data.is_data(name)})
