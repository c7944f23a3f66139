"""Which nemeses and mixes there are: every module of this folder with a `NEMESIS` or a `MIX` object in it."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import nemesis as folder
from fencepost.errors import InternalError
from fencepost.extensions import load
from nemesis.base import Mix, Nemesis


@cache
def nemeses() -> Mapping[str, Nemesis]:
    """All nemeses by the name that `--nemesis` calls them, sorted. Raises InternalError if two share a name."""
    found: dict[str, Nemesis] = {}
    for module, nemesis in _objects("NEMESIS"):
        if nemesis.name in found:
            raise InternalError(f"two nemeses are called {nemesis.name}; the second one is in {module}")
        found[nemesis.name] = nemesis
    return MappingProxyType(dict(sorted(found.items())))


@cache
def mixes() -> Mapping[str, Mix]:
    """All mixes by name, sorted. Raises InternalError if two share a name, or one has the name of a nemesis."""
    found: dict[str, Mix] = {}
    for module, mix in _objects("MIX"):
        if mix.name in found or mix.name in nemeses():
            raise InternalError(f"two nemeses are called {mix.name}; the second one is in {module}")
        found[mix.name] = mix
    return MappingProxyType(dict(sorted(found.items())))


def _objects(name: str) -> Iterator[tuple[str, Any]]:
    """The modules that define it, by name, and the object."""
    for module in pkgutil.iter_modules(folder.__path__, "nemesis."):
        defined = getattr(load(module.name), name, None)
        if defined is not None:
            yield module.name, defined
