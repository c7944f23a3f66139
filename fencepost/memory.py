"""Is there room for the libraries that every command may load? And is what was freed given back?

OpenBLAS, a part of numpy, ends the process when it is loaded and finds too little memory: with exit code 1, which is a
verdict of ours, or as Ctrl-C does. No code can catch that, so it is found out beforehand.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from pathlib import Path
from typing import Final

from fencepost.errors import UsageError

_MIB: Final = 1 << 20
_LIBRARIES_MIB: Final = 512
_MIB_OF_A_CORE: Final = 16
"""OpenBLAS starts a thread for each, with a stack of 8 MiB as a rule."""

_OTHER_THREADS: Final = 8
_MANY_PROCESSES: Final = 4_096
"""With a limit above it, what there is already is not counted: that takes a while."""

_M_ARENA_MAX: Final = -8


def check_address_space() -> None:
    """Raise UsageError if this shell allows less address space than the libraries take."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed_mib = _LIBRARIES_MIB + _MIB_OF_A_CORE * (os.cpu_count() or 1)
    if allowed != resource.RLIM_INFINITY and allowed < needed_mib * _MIB:
        raise UsageError(
            f"fencepost needs {needed_mib:,} MiB of address space, and this shell allows {allowed // _MIB:,} "
            "(ulimit -v); raise that"
        )


def check_processes() -> None:
    """Raise UsageError if this shell allows too few processes and threads for those of the libraries, besides what the
    same user runs already. Root has no such limit."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if os.geteuid() == 0 or allowed == resource.RLIM_INFINITY or allowed > _MANY_PROCESSES:
        return
    needed = _OTHER_THREADS + (os.cpu_count() or 1)
    if (taken := _own_threads()) + needed > allowed:
        raise UsageError(
            f"fencepost needs {needed} more processes and threads, and this shell allows {allowed:,} (ulimit -u), of "
            f"which {taken:,} are taken; raise that"
        )


def _own_threads() -> int:
    """How many processes and threads run as this user."""
    count = 0
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or is hidden
            if process.name.isdigit() and process.stat().st_uid == os.geteuid():
                count += sum(1 for _ in (process / "task").iterdir())
    return count


def spare_memory() -> None:
    """Make the allocators of this process keep little of what is freed: those of the C library and of Arrow keep
    several times what they need, for each thread. Arrow's own also takes longer for tables that are used once."""
    import pyarrow as pa  # slow to import

    _share_heaps()
    pa.set_memory_pool(pa.system_memory_pool())


def _share_heaps() -> None:
    """Let threads that come from now on share heaps, one for each processor. The GNU C library would make up to eight
    for each, and every one keeps what was freed in it ("mallopt(3)")."""
    _call("mallopt", ctypes.c_int(_M_ARENA_MAX), ctypes.c_int(os.cpu_count() or 1))


def _call(name: str, *arguments: ctypes._SimpleCData[int]) -> None:
    """Call this function of the C library, if it has one. Some have not, and some Pythons cannot look."""
    with contextlib.suppress(OSError, AttributeError):
        getattr(ctypes.CDLL(None), name)(*arguments)
