"""What tests of disks share: whether this machine can have them, and what the kernel still knows of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.disk import FILE_SYSTEMS, FileSystem, check_disks
from fencepost.errors import UsageError


def why_not(file_system: FileSystem) -> str:
    """Empty if this machine can cut the power of such a disk."""
    try:
        check_disks(file_system)
    except UsageError as error:
        return str(error)
    return ""


_WHY_NOT = {file_system: why_not(file_system) for file_system in FILE_SYSTEMS}

needs_disks = pytest.mark.skipif(bool(_WHY_NOT["ext4"]), reason=_WHY_NOT["ext4"])

KINDS = [
    pytest.param(file_system, marks=pytest.mark.skipif(bool(reason), reason=reason))
    for file_system, reason in _WHY_NOT.items()
]


def traces(folder: Path) -> list[str]:
    """Mounts and loop devices below the folder, as the kernel lists them."""
    real = os.path.realpath(folder)
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    backing = [path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [each for each in (*mounts, *backing) if each.startswith(f"{real}/")]
