"""Is there room for the libraries that every command may load?

OpenBLAS, a part of numpy, ends the process when it is loaded and finds too little memory: with exit code 1, which is a
verdict of ours, or as Ctrl-C does. Nobody can catch that, so it is found out beforehand.
"""

from __future__ import annotations

import os
import resource
from typing import Final

from fencepost.errors import UsageError

_MIB: Final = 1 << 20
_LIBRARIES_MIB: Final = 512
_MIB_OF_A_CORE: Final = 16
"""OpenBLAS starts a thread for each, with a stack of 8 MiB as a rule."""


def check_address_space() -> None:
    """Raise UsageError if this shell allows less address space than the libraries take."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed_mib = _LIBRARIES_MIB + _MIB_OF_A_CORE * (os.cpu_count() or 1)
    if allowed != resource.RLIM_INFINITY and allowed < needed_mib * _MIB:
        raise UsageError(
            f"fencepost needs {needed_mib:,} MiB of address space, and this shell allows {allowed // _MIB:,} "
            "(ulimit -v); raise that"
        )
