"""Nemeses, checkers, locks, workloads, servers and backends of one's own, kept outside of the source tree.

FENCEPOST_PATH names folders, joined by colons. Each mirrors the source tree, so that a file can move into the tree
later without an edit:

    my-extensions/nemesis/flood.py
    my-extensions/harness/checkers/fairness.py
    my-extensions/workloads/locks/my_lock.py
    my-extensions/workloads/kinds/bank.py
    my-extensions/cluster/servers/my_server.py
    my-extensions/cluster/backends/my_backend.py

A package that can be extended passes its `__path__` through `extended`; its registry then finds the files as it finds
its own. The variable is inherited, so client processes see the same locks.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from fencepost.errors import UsageError
from fencepost.user_code import user_code

VARIABLE: Final = "FENCEPOST_PATH"


def extension_folders() -> tuple[Path, ...]:
    """The folders that FENCEPOST_PATH names. Raises UsageError if one of them does not exist."""
    folders = tuple(Path(name).absolute() for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name)
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{VARIABLE} names {folder}, which is not a folder; correct it or unset it")
    return folders


def extended(path: Iterable[str], package: str) -> list[str]:
    """The package's `__path__` with the folders of the same name in every extension behind it.

    Raises UsageError for an extension's module whose name is taken: it would be ignored in silence.
    """
    paths = list(path)
    taken = {module.stem for each in paths for module in Path(each).glob("*.py")}
    for folder in extension_folders():
        place = folder.joinpath(*package.split("."))
        for module in sorted(place.glob("*.py")):
            if module.stem in taken:
                raise UsageError(f"{module}: fencepost has a {package}.{module.stem} already; rename the file")
            taken.add(module.stem)
        if place.is_dir():
            paths.append(str(place))
    return paths


def objects_in(folder: ModuleType, name: str, kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """What the modules of a package that can be extended define under this name, each with the name of its module.
    Raises UsageError for one of another kind."""
    for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
        if hasattr(load(module.name), name):
            yield module.name, object_in(module.name, name, kind)


def object_in(module_name: str, name: str, kind: type[Any]) -> Any:
    """What this module defines under this name. Raises UsageError if that is missing or, in a user's module, of another
    kind. (To compare with a protocol asks for every member, which may import what is slow to import.)"""
    module = load(module_name)
    found = getattr(module, name, None)
    if found is None or (_file_of_user(module_name) is not None and not isinstance(found, kind)):
        raise UsageError(f"{module.__file__}: {name} must be a {kind.__module__}.{kind.__qualname__}")
    return found


def load(name: str) -> ModuleType:
    """The module of this name in a package that can be extended. Raises UsageError if it is a user's and cannot be
    imported."""
    path = _file_of_user(name)
    if path is None:
        return import_module(name)
    with user_code(str(path), f"{path} cannot be imported"):
        return import_module(name)


def _file_of_user(name: str) -> Path | None:
    """Where a user keeps the module of this name; None if it is fencepost's."""
    folders = extension_folders()
    spec = find_spec(name) if folders else None
    path = Path(spec.origin) if spec is not None and spec.origin else None
    return path if path is not None and any(path.is_relative_to(folder) for folder in folders) else None
