"""A process and its descendants, whichever process groups they are in."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def tree_of(pid: int) -> tuple[int, ...]:
    """The process and its descendants, parents first. Complete as far as none of them forks meanwhile."""
    found = [pid]
    for each in found:
        found += _children_of(each)
    return tuple(found)


def _children_of(pid: int) -> list[int]:
    """The kernel lists a child with the thread that forked it; empty for a process that is gone."""
    children: list[int] = []
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as threads:
        for thread in threads:
            with contextlib.suppress(OSError):
                children += map(int, Path(thread.path, "children").read_bytes().split())
    return children
