"""Which nemeses and mixes there are: every module of this folder with a `NEMESIS` or a `MIX` object in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import nemesis as folder
from fencepost.errors import InternalError, UsageError
from fencepost.extensions import objects_in
from nemesis.base import TARGET_FIELDS, Mix, Nemesis, TargetFields


@cache
def nemeses() -> Mapping[str, Nemesis]:
    """All nemeses by the name that `--nemesis` calls them, sorted. Raises InternalError if two share a name,
    and UsageError for one whose faults do not say what they hit."""
    found: dict[str, Nemesis] = {}
    for module, nemesis in objects_in(folder, "NEMESIS", Nemesis):
        if nemesis.name in found:
            raise InternalError(f"two nemeses are called {nemesis.name}; the second one is in {module}")
        _check_targets(module, nemesis.faults)
        found[nemesis.name] = nemesis
    return MappingProxyType(dict(sorted(found.items())))


def _check_targets(module: str, faults: type[Any]) -> None:
    """Raises UsageError for faults that do not say what they hit: it could be neither checked nor shrunk."""
    if not issubclass(faults, TargetFields) or (
        faults.targets is TargetFields.targets and TARGET_FIELDS.isdisjoint(faults.__struct_fields__)
    ):
        raise UsageError(
            f"{module}: {faults.__name__} does not say what it hits; derive it from nemesis.base.TargetFields, with a "
            f"field {' or '.join(sorted(TARGET_FIELDS))}, or with `targets` and `only` of its own"
        )


@cache
def mixes() -> Mapping[str, Mix]:
    """All mixes by name, sorted. Raises InternalError if two share a name, or one has the name of a nemesis."""
    found: dict[str, Mix] = {}
    for module, mix in objects_in(folder, "MIX", Mix):
        if mix.name in found or mix.name in nemeses():
            raise InternalError(f"two nemeses are called {mix.name}; the second one is in {module}")
        found[mix.name] = mix
    return MappingProxyType(dict(sorted(found.items())))
