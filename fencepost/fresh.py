"""Start a module in a fresh interpreter, cheaply.

What a short-lived process imports stays until its end, and looking for garbage among it is a tenth of the process's
start. So the interpreter begins with its garbage collector switched off, and the module says when it is complete.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

_BOOT: Final = (
    "import gc, sys; gc.disable(); del sys.argv[0]; "
    "from runpy import run_module; run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def running(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as `python -m` does; the module calls `is_complete`."""
    return [sys.executable, "-c", _BOOT, module, *arguments]


def is_complete() -> None:
    """Everything is imported and made that stays until the end of the process."""
    gc.collect()
    gc.freeze()
    gc.enable()
