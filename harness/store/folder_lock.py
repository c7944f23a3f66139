"""An exclusive advisory lock on a folder (flock), held until the process closes it, or ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from time import monotonic, sleep
from typing import Final

_A_LOOK_TAKES_S: Final = 0.5
"""At most, for `is_held`, which holds the folder as it looks; a process that holds it for longer is using it."""


def hold(folder: Path) -> int | None:
    """Keep other processes from this folder until the descriptor is closed; None if one holds it already."""
    until_s = monotonic() + _A_LOOK_TAKES_S
    while (held := _try(folder, fcntl.LOCK_EX)) is None:
        if monotonic() > until_s:
            return None
        sleep(0.01)
    return held


def is_held(folder: Path) -> bool:
    """Whether a process holds it. Raises OSError if there is no such folder."""
    held = _try(folder, fcntl.LOCK_SH)  # readers do not keep each other out
    if held is not None:
        os.close(held)
    return held is None


def _try(folder: Path, how: int) -> int | None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
