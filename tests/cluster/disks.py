"""What tests of disks share: the kinds of file system, and what the kernel still knows of disks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.persistence import FILE_SYSTEMS

KINDS = [pytest.param(file_system, marks=pytest.mark.needs(file_system)) for file_system in FILE_SYSTEMS]


def traces(folder: Path) -> list[str]:
    """Mounts and loop devices below the folder, as the kernel lists them."""
    real = os.path.realpath(folder)
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    backing = [path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [each for each in (*mounts, *backing) if each.startswith(f"{real}/")]
