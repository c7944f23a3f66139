"""What the clusters of the tests consist of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster.engine_address import Engine, find_engine
from cluster.programs import find_server, find_toxiproxy
from cluster.spec import ClusterSpec


def spec_of(nodes: Sequence[str], clients: Sequence[str], **others: Any) -> ClusterSpec:
    """These nodes and clients on the programs of this machine; `others` are further fields of `ClusterSpec`."""
    programs = {name: find() for name, find in _PROGRAMS.items() if name not in others}
    return ClusterSpec(nodes=tuple(nodes), clients=tuple(clients), **programs, **others)


def engine_of(backend: str) -> Engine | None:
    """What a state folder has to know for a cluster on this backend."""
    return find_engine() if backend == "docker" else None


_PROGRAMS: dict[str, Any] = {
    "server": lambda: find_server("redis"),
    "resource_server": lambda: find_server("redis"),
    "toxiproxy": find_toxiproxy,
}
