"""What a cluster consists of, whichever backend it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cluster.access import Access
from cluster.base import RESOURCE, LinkKey
from cluster.persistence import FileSystem, Policy
from cluster.programs import ServerProgram, ToxiproxyProgram


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """`nodes` and `clients` are names. `server` is what the nodes run, `resource_server` what the resource runs.

    The nodes follow `policy`; the resource always fsyncs before it replies. With `disks`, each node has a small file
    system of that kind to itself, whose power can be cut. With a `clock_library`, each node has a wall clock of its
    own, which can be set (`cluster.wall_clock`). `access`: who may talk to the servers.
    """

    server: ServerProgram
    resource_server: ServerProgram
    toxiproxy: ToxiproxyProgram
    nodes: tuple[str, ...]
    clients: tuple[str, ...]
    policy: Policy = "none"
    disks: FileSystem | None = None
    clock_library: Path | None = None
    access: Access = field(default_factory=partial(Access.fresh, closed=False))

    @property
    def policies(self) -> Mapping[str, Policy]:
        """The persistence of every server: the nodes in order, then the resource."""
        return {**dict.fromkeys(self.nodes, self.policy), RESOURCE: RESOURCE_POLICY}

    @property
    def programs(self) -> Mapping[str, ServerProgram]:
        """What every server runs: the nodes in order, then the resource."""
        return {**dict.fromkeys(self.nodes, self.server), RESOURCE: self.resource_server}

    @property
    def link_keys(self) -> tuple[LinkKey, ...]:
        """Who reaches whom through a link of their own: every client reaches every server. A group of servers that talk
        to each other has a link for each pair of members as well: (member, other member)."""
        return tuple((client, server) for client in self.clients for server in self.programs)


RESOURCE_POLICY: Policy = "aof-always"
"""The resource must never lose a write that it acknowledged."""
