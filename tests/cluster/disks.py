"""What tests of disks share: the kinds of file system, and what the kernel still knows of disks."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from cluster.persistence import FILE_SYSTEMS

KINDS = [pytest.param(file_system, marks=pytest.mark.needs(file_system)) for file_system in FILE_SYSTEMS]


def images_attached() -> list[str]:
    """The image behind each loop device of this machine, as the kernel lists them."""
    found = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # detached in this moment
            found.append(path.read_text().strip())
    return found


def traces(folder: Path) -> list[str]:
    """Mounts and loop devices below the folder, as the kernel lists them."""
    real = os.path.realpath(folder)
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [each for each in (*mounts, *images_attached()) if each.startswith(f"{real}/")]
