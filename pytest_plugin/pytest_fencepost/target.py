"""How a run is told which lock to use: a command that starts the author's interpreter with the author's modules."""

from __future__ import annotations

import os
import re
import shlex
import sys
import sysconfig
from pathlib import Path

from pytest_fencepost import start

_NAME = 40
"""The longest `--name`."""


def named(lock: object) -> str:
    """`package.module:Class` for a text, a class or a function. Raises ValueError."""
    if isinstance(lock, str):
        module, colon, name = lock.partition(":")
        if not (module and colon and name):
            raise ValueError(f"{lock!r} names no lock; write package.module:Class")
        return lock
    module, name = getattr(lock, "__module__", ""), getattr(lock, "__qualname__", "")
    if not module or not name or "<" in name:
        raise ValueError(f"{lock!r} cannot be imported by its name; give a class or a function of a module")
    return f"{module}:{name}"


def options_for(target: str) -> dict[str, object]:
    """The options of `fencepost test` that make its clients use this lock."""
    command = ["env", f"PYTHONPATH={_path()}", sys.executable, str(Path(start.__file__ or "").parent), target]
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", target.partition(":")[2]).lstrip("._+-")[:_NAME]
    return {"lock_command": shlex.join(command), "name": name or None}


def _path() -> str:
    """Where modules are found now and an interpreter that has just started does not look."""
    library = Path(os.__file__).parent
    own = {str(library), str(library / "lib-dynload"), *(sysconfig.get_path(name) for name in ("purelib", "platlib"))}
    places = [str(Path(place or ".").absolute()) for place in sys.path]
    return os.pathsep.join(dict.fromkeys(place for place in places if place not in own and Path(place).exists()))
