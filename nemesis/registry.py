"""Which nemeses there are: every module of this folder with a `NEMESIS` object in it."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

import nemesis as folder
from fencepost.errors import InternalError
from nemesis.base import Nemesis


@cache
def nemeses() -> Mapping[str, Nemesis]:
    """All nemeses by the name that `--nemesis` calls them, sorted. Raises InternalError if two share a name."""
    found: dict[str, Nemesis] = {}
    for module in pkgutil.iter_modules(folder.__path__, "nemesis."):
        nemesis: Nemesis | None = getattr(import_module(module.name), "NEMESIS", None)
        if nemesis is None:
            continue
        if nemesis.name in found:
            raise InternalError(f"two nemeses are called {nemesis.name}; the second one is in {module.name}")
        found[nemesis.name] = nemesis
    return MappingProxyType(dict(sorted(found.items())))
