"""Which servers there are: every module of `cluster/servers` with a `SERVER` object in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import cluster.servers as folder
from cluster.server import Server
from fencepost.errors import InternalError
from fencepost.extensions import objects_in


@cache
def servers() -> Mapping[str, Server]:
    """All servers by the name that `--server` calls them: those of the source tree first, each folder sorted. Raises
    InternalError if two share a name."""
    found: dict[str, Server] = {}
    for module, server in objects_in(folder, "SERVER", Server):
        if server.name in found:
            raise InternalError(f"two servers are called {server.name}; the second one is in {module}")
        found[server.name] = server
    return MappingProxyType(found)


def server_named(name: str) -> Server:
    """The server of that name. Raises InternalError if there is none: callers have the name from `servers`."""
    if name not in servers():
        raise InternalError(f"no server is called {name!r}; known: {', '.join(servers())}")
    return servers()[name]
