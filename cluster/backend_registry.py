"""Which backends there are: every module of `cluster/backends` with a `BACKEND` object in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import cluster.backends as folder
from cluster.backend import Backend
from cluster.site import Site, UnavailableError
from fencepost.errors import InternalError, UsageError
from fencepost.extensions import objects_in

if TYPE_CHECKING:
    from cluster.spec import ClusterSpec
    from cluster.sweep import Sweeper

AUTO: Final = "auto"
"""The choice of the first backend by rank that is available."""


@cache
def backends() -> Mapping[str, Backend]:
    """All backends by their name in `--cluster`, by falling rank. Raises InternalError if two share a name."""
    found: dict[str, Backend] = {}
    for module, backend in objects_in(folder, "BACKEND", Backend):
        if backend.name in {AUTO, *found}:
            raise InternalError(f"two backends are called {backend.name}; the second one is in {module}")
        found[backend.name] = backend
    return MappingProxyType(dict(sorted(found.items(), key=lambda item: -(item[1].rank or 0))))


def backend_named(name: str) -> Backend:
    """The backend of that name. Raises UsageError if there is none: it may be one that a run had and this
    installation has not."""
    if name not in backends():
        raise UsageError(f"--cluster {name!r} is not known; there are {', '.join(choices())}")
    return backends()[name]


def choices() -> tuple[str, ...]:
    """The words that `--cluster` takes."""
    return (AUTO, *backends())


def everywhere() -> Backend:
    """The backend that every machine can have: what `auto` takes when no other is available."""
    return next(iter(backends().values()))


def choose_site(choice: str, spec: ClusterSpec) -> Site:
    """Where a run can have its servers. Raises UnavailableError if the backend that was named cannot have it, and
    UsageError if the backend cannot run the programs."""
    if choice != AUTO:
        return backend_named(choice).find_site(spec, is_asked=True)
    passed_over: list[str] = []
    *preferred, last = sorted((each for each in backends().values() if each.rank), key=lambda each: each.rank or 0)
    for backend in preferred:
        try:
            return backend.find_site(spec, is_asked=False)
        except UnavailableError as error:
            passed_over += [] if error.is_usual else [error.found]
    return replace(last.find_site(spec, is_asked=False), passed_over="; ".join(passed_over) or None)


def sweepers(parent: Path | None) -> list[Sweeper]:
    """Of all backends, for the dead runs with state folders in `parent`; and of disks, after what may use them."""
    return [*(partial(each.sweep, parent=parent) for each in backends().values()), _disks(parent)]


def sweepers_of(site: Site | None, parent: Path) -> list[Sweeper]:
    """Of the one run with this site (None: without servers), whose state folder is in `parent`."""
    of_backend = [] if site is None else [partial(backend_named(site.backend).sweep, parent=parent, site=site)]
    return [*of_backend, _disks(parent)]


def _disks(parent: Path | None) -> Sweeper:
    from cluster.disk import sweep_disks

    return partial(sweep_disks, parent=parent)
