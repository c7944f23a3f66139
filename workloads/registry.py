"""Finds the locks and opens them.

Locks are found by looking into folders: a recipe is a module in `locks/` that defines `LOCK`, a foreign lock is a
folder in `locks/foreign/` with an `adapter.py`. A lock is named after its file, with dashes. Finding a lock imports
nothing, so a foreign library is needed only when it is opened. A user's own lock is `package.module:Class`, or any
program that speaks the protocol in `docs/lock-protocol.md`.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from fencepost.errors import BrokenEnvironmentError, UsageError
from workloads import locks
from workloads.base import Lock, LockFactory, LockSettings, NodeAddress
from workloads.foreign import ForeignLock

LOCKS_FOLDER: Final = Path(__file__).parent / "locks"
FOREIGN_FOLDER: Final = LOCKS_FOLDER / "foreign"
ENVIRONMENTS_FOLDER: Final = Path(__file__).parent.parent / ".tools" / "foreign"
"""Where set-up creates an environment for each foreign lock: the same name as its folder, with pinned versions."""

_VERBS: Final = ("acquire", "extend", "release", "close", "describe")


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock that ships with fencepost; a `control` is broken on purpose. `summary`: its module's first sentence."""

    name: str
    kind: Literal["recipe", "control", "foreign"]
    path: Path
    summary: str


def lock_names() -> tuple[LockInfo, ...]:
    """All locks that ship with fencepost, by kind and name, whether or not this machine can run them."""
    recipes = [path for folder in locks.__path__ for path in Path(folder).glob("[!_]*.py")]
    adapters = list(FOREIGN_FOLDER.glob("*/adapter.py"))
    infos = [_info(path, path.stem) for path in recipes] + [_info(path, path.parent.name) for path in adapters]
    return tuple(sorted(infos, key=lambda info: (("recipe", "foreign", "control").index(info.kind), info.name)))


def check_lock(lock: str, lock_command: str | None) -> None:
    """Raise UsageError if `open_lock` cannot open this lock on this machine. Starts nothing."""
    if lock_command is not None:
        _program(lock_command)
    elif ":" in lock:
        _user_class(lock)
    else:
        info = _find(lock)
        if info.kind == "foreign":
            _interpreter(info)


def open_lock(lock: str, lock_command: str | None, nodes: Sequence[NodeAddress], settings: LockSettings) -> Lock:
    """Open a lock: connect it to its nodes and make it ready. `lock_command`, if given, replaces `lock`.

    Raises UsageError as `check_lock` does, and BrokenEnvironmentError if a program or a class fails to open.
    """
    if lock_command is not None:
        return ForeignLock(_program(lock_command), nodes, settings)
    if ":" in lock:
        factory = _user_class(lock)
        try:
            return factory(nodes, settings)
        except Exception as error:  # whatever a stranger's constructor raises
            raise BrokenEnvironmentError(f"--lock {lock} cannot be opened: {_one_line(error)}") from error
    info = _find(lock)
    if info.kind == "foreign":
        # -E: what our own interpreter is told by PYTHONPATH is not meant for theirs
        return ForeignLock([str(_interpreter(info)), "-E", str(info.path)], nodes, settings)
    recipe = cast(LockFactory, importlib.import_module(f"workloads.locks.{info.path.stem}").LOCK)
    return recipe(nodes, settings)


def _info(path: Path, name: str) -> LockInfo:
    name = name.replace("_", "-")
    kind: Literal["recipe", "control", "foreign"] = "recipe"
    if path.name == "adapter.py":
        kind = "foreign"
    elif name.startswith("control-"):
        kind = "control"
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    sentence = " ".join(docstring.split("\n\n")[0].split()).split(". ")[0].rstrip(".")
    return LockInfo(name, kind, path, sentence)


def _find(lock: str) -> LockInfo:
    infos = {info.name: info for info in lock_names()}
    if lock in infos:
        return infos[lock]
    nearest = difflib.get_close_matches(lock, infos, n=1)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    raise UsageError(
        f"no lock is named {lock!r}: {hint}known are {', '.join(infos)}; bring your own as --lock package.module:Class "
        "or with --lock-command"
    )


def _interpreter(info: LockInfo) -> Path:
    python = ENVIRONMENTS_FOLDER / info.path.parent.name / "bin" / "python"
    if not os.access(python, os.X_OK):
        raise UsageError(f"the environment of the lock {info.name} is missing ({python}): run 'make setup'")
    return python


def _program(lock_command: str) -> list[str]:
    try:
        words = shlex.split(lock_command)
    except ValueError as error:
        raise UsageError(f"--lock-command {lock_command!r} cannot be split into words: {error}") from None
    if not words:
        raise UsageError("--lock-command is empty; give a program that speaks the lock protocol, and its arguments")
    program = shutil.which(words[0])
    if program is None:
        raise UsageError(f"--lock-command: no program {words[0]!r} was found that can be run; check its name and path")
    return [program, *words[1:]]


def _user_class(lock: str) -> LockFactory:
    """The class that `package.module:Class` names; like `python -m`, this also searches the current directory."""
    module_name, _, class_name = lock.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a stranger's module raises while it is imported
        raise UsageError(
            f"--lock {lock}: the module {module_name!r} cannot be imported from {here}: {_one_line(error)}"
        ) from error
    factory = getattr(module, class_name, None)
    if factory is None:
        classes = [name for name, value in vars(module).items() if inspect.isclass(value)]
        raise UsageError(
            f"--lock {lock}: {module_name} has no {class_name!r}; its classes: {', '.join(classes) or 'none'}"
        )
    missing = [verb for verb in _VERBS if not callable(getattr(factory, verb, None))]
    if not inspect.isclass(factory) or missing:
        raise UsageError(
            f"--lock {lock} is not a class with {', '.join(_VERBS)}; missing: {', '.join(missing) or 'a class'}"
        )
    try:
        inspect.signature(factory).bind([], LockSettings())
    except TypeError as error:
        raise UsageError(f"--lock {lock}: its constructor must take (nodes, settings): {error}") from None
    return cast(LockFactory, factory)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
