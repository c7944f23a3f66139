"""Mounts and loop devices, as the kernel reports them. Nothing here starts a program."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cluster.polling import becomes_true

LOOP_MAJOR = 7
"""The major number of every loop device."""

_LOOP_CLR_FD = 0x4C01
_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_mounted(path: Path) -> bool:
    """Whether something is mounted there, in this mount namespace."""
    return Path(os.path.realpath(path)) in set(_mount_points())


def mounts_below(folder: Path) -> list[Path]:
    """Every mount point below the folder, sorted."""
    return sorted(point for point in _mount_points() if point.is_relative_to(folder) and point != folder)


def works_in(pid: int, path: Path) -> bool:
    """Whether the process's working directory is in the file system at `path`; also for one in a container."""
    try:
        return (Path("/proc") / str(pid) / "cwd").stat().st_dev == path.stat().st_dev
    except OSError:
        return False


def release_image(image: Path, within_s: float) -> bool:
    """Detach every loop device from the image, and wait for it; False if one stays, because it is in use somewhere."""

    def is_free() -> bool:
        devices = list(_loop_devices(image))
        for device in devices:
            # A device in use is detached at its last close, so asking can do no harm.
            with suppress(OSError):
                descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.ioctl(descriptor, _LOOP_CLR_FD)
                finally:
                    os.close(descriptor)
        return not devices

    return becomes_true(is_free, within_s=within_s)


def _mount_points() -> Iterator[Path]:
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        # Blanks and backslashes in a path are written as octal numbers.
        yield Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), line.split(" ")[4]))


def _loop_devices(image: Path) -> Iterator[Path]:
    wanted = os.path.realpath(image)
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # detached in this moment
            if backing.read_text().removesuffix("\n").removesuffix(" (deleted)") == wanted:
                yield Path("/dev") / backing.parent.parent.name
