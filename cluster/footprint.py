"""What a server takes of its machine: memory and disk."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cluster.process_tree import tree_of

_MIB: Final = 1 << 20
_BLOCK: Final = 512
_PSS: Final = re.compile(rb"^Pss:\s+(\d+) kB$", re.MULTILINE)


class Footprint(NamedTuple):
    """`memory_mib`: of all its processes; what several share counts once among them (PSS). `disk_mib`: what its folder
    takes, without files that other folders share."""

    memory_mib: float
    disk_mib: float


def footprint_of(pid: int, folder: Path) -> Footprint:
    """Of the server that this process and its descendants are."""
    return Footprint(
        memory_mib=round(sum(map(_pss_kib, tree_of(pid))) / 1024, 1),
        disk_mib=round(sum(map(_taken, folder.rglob("*"))) / _MIB, 1),
    )


def _pss_kib(pid: int) -> int:
    """0 for a process that is gone."""
    with suppress(OSError):
        if found := _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes()):
            return int(found[1])
    return 0


def _taken(path: Path) -> int:
    """In bytes; 0 for a file that is gone, or has another name elsewhere."""
    with suppress(OSError):
        found = path.lstat()
        return 0 if path.is_file() and found.st_nlink > 1 else found.st_blocks * _BLOCK
    return 0
