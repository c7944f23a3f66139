"""Whether a process is gone, for tests that ended it or saw it end."""

from __future__ import annotations

import psutil


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended, though perhaps nobody has collected it yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it was collected between the two looks
        return True
