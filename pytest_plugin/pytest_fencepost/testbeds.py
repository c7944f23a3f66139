"""No more runs at once than the machine bears, whichever process makes them: workers of xdist, or several sessions of
pytest.

A run's timing is part of what is judged, and a machine that is too busy makes verdicts unknown. There are as many files
as runs may be made at once, and a process that makes one holds the lock of a file. The kernel frees it, however they
end."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO


def bearable() -> int:
    """How many runs this machine bears at once: one for each processor that we may use."""
    return len(os.sched_getaffinity(0))


def shared_folder() -> Path:
    """The same one for every pytest of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "pytest-fencepost")


@contextmanager
def one_place(folder: Path, at_once: int, mine: int) -> Iterator[None]:
    """Hold one of `at_once` places while the block lasts. A free one is taken; if none is, number `mine` is waited for,
    counted round."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = [stack.enter_context((folder / f"place-{number}.lock").open("wb")) for number in range(at_once)]
        if not any(_take(file) for file in files):
            fcntl.flock(files[mine % at_once], fcntl.LOCK_EX)
        yield


def _take(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
