"""Interpreters for parts of fencepost: started quickly, and undisturbed by the user's folders and Python's variables.

What a short-lived process imports stays until its end, and looking for garbage among it is a tenth of the process's
start. So the interpreter begins with its garbage collector switched off, and the module says when it is complete.

A user's folder may have a module `json` or `queue`. In every process of fencepost the current folder and those of
PYTHONPATH are searched last, so that they shadow neither the standard library nor what fencepost needs; a lock of the
user's, and what it imports, is found there all the same. This module imports nothing that they could shadow.
"""

from __future__ import annotations

import gc
import os
import sys

DISTURBING = (
    "PYTHONASYNCIODEBUG",
    "PYTHONDEBUG",
    "PYTHONDEVMODE",
    "PYTHONDUMPREFS",
    "PYTHONINSPECT",
    "PYTHONMALLOC",
    "PYTHONMALLOCSTATS",
    "PYTHONOPTIMIZE",
    "PYTHONPROFILEIMPORTTIME",
    "PYTHONTRACEMALLOC",
    "PYTHONVERBOSE",
    "PYTHONWARNDEFAULTENCODING",
    "PYTHONWARNINGS",
)
"""Variables that make Python slow, print, or raise where it would not: none of them may change a run."""

_ROOM_BYTES = 1 << 26

_BOOT = (
    "import gc, sys; gc.disable(); places = int(sys.argv[1]); sys.path[:] = sys.argv[2 : 2 + places]; "
    "del sys.argv[: 2 + places]; "
)
_EDITABLE_FIRST = "import sys; sys.meta_path.sort(key=lambda finder: getattr(finder, '__name__', '') == 'PathFinder'); "
"""An editable installation is found by a finder of its own, which comes after that of sys.path."""
_RUN = _BOOT + "from runpy import run_module; run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
_CALL = (
    _BOOT + "from importlib import import_module; module, _, name = sys.argv[0].partition(':'); "
    "getattr(import_module(module), name)()"
)


def running(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as `python -m` does, with the `sys.path` of this process. One that lives for long
    calls `is_complete`."""
    return _command(_RUN, module, *arguments)


def calling(function: str, *arguments: str) -> list[str]:
    """The same for a function without parameters, `module:name`."""
    return _command(_CALL, function, *arguments)


def _command(boot: str, *words: str) -> list[str]:
    path = _users_folders_last()
    code = _EDITABLE_FIRST + boot if _is_editable() else boot
    return [sys.executable, "-P", "-c", code, str(len(path)), *path, *words]


def is_complete() -> None:
    """Everything is imported and made that stays until the end of the process."""
    gc.collect()
    gc.freeze()
    gc.enable()


def begin_undisturbed() -> None:
    """Begin this program anew without the variables that would disturb it or what it starts. Returns if there are
    none."""
    found = [name for name in DISTURBING if name in os.environ]
    for name in found:
        del os.environ[name]
    if found and sys.executable:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606


def keep_no_torn_bytecode() -> None:
    """Keep nothing that is compiled, here and in what is started, if a file of some size might not fit. Python keeps
    what it could write of it, and cannot load that later (CPython issue 126606)."""
    import resource

    try:
        disk = os.statvfs(os.path.dirname(__file__))  # noqa: PTH120
    except OSError:
        return
    largest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if disk.f_bavail * disk.f_frsize < _ROOM_BYTES or 0 <= largest < _ROOM_BYTES:
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def search_users_folders_last() -> None:
    """From now on modules are looked for in the current folder and those of PYTHONPATH last."""
    sys.path[:] = _users_folders_last()
    if _is_editable():
        exec(_EDITABLE_FIRST, {})  # noqa: S102 - the same line that starts our processes


def _is_editable() -> bool:
    """Whether fencepost was found by a finder of its own. A tree on `sys.path` is found there, whatever is
    installed."""
    return _root() not in sys.path


def _root() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120


def _users_folders_last() -> list[str]:
    """`sys.path` with those folders at its end; the one that fencepost is in stays where it is."""
    theirs = {"", *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    try:  # noqa: SIM105 - contextlib imports what they could shadow
        theirs |= {os.path.abspath(place) for place in theirs}  # noqa: PTH100
    except FileNotFoundError:  # the current folder was deleted, and nothing is found in it
        pass
    theirs.discard(_root())
    return sorted(sys.path, key=theirs.__contains__)
