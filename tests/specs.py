"""What the clusters of the tests consist of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster.engine_address import find_engine
from cluster.programs import find_server, find_toxiproxy
from cluster.site import Site
from cluster.spec import ClusterSpec


def spec_of(nodes: Sequence[str], clients: Sequence[str], **others: Any) -> ClusterSpec:
    """These nodes and clients on the programs of this machine; `others` are further fields of `ClusterSpec`."""
    programs = {name: find() for name, find in _PROGRAMS.items() if name not in others}
    return ClusterSpec(nodes=tuple(nodes), clients=tuple(clients), **programs, **others)


def site_of(backend: str) -> Site:
    """Of a run without a sandbox."""
    return find_engine().site if backend == "docker" else Site(backend)


_PROGRAMS: dict[str, Any] = {
    "server": lambda: find_server("redis"),
    "resource_server": lambda: find_server("redis"),
    "toxiproxy": find_toxiproxy,
}
