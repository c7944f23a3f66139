"""What a cluster consists of, whichever backend it runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Final, Literal

from cluster.address import LinkKey
from cluster.base import RESOURCE
from cluster.credentials import Access
from cluster.persistence import FileSystem, Policy
from cluster.programs import ServerProgram, ToxiproxyProgram
from cluster.server import Group

Replication = Literal["none", "manual", "sentinel"]
"""What the nodes are to each other. `none`: nothing. `manual`: the first one is a primary and the others are its
replicas, until a script promotes one of them. `sentinel`: three sentinels do that."""

_SENTINELS: Final = ("s1", "s2", "s3")


def sentinels_of(replication: Replication, nodes: Sequence[str], group: Group | None) -> tuple[str, ...]:
    """The names of the sentinels that watch the nodes: in a group, one beside each member."""
    if group is not None and group.sentinel_port is not None:
        return tuple(f"s{number}" for number, _ in enumerate(nodes, 1))
    return _SENTINELS if replication == "sentinel" else ()


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """`nodes` and `clients` are names. `server` is what the nodes run, `resource_server` what the resource runs.

    The nodes follow `policy`; the resource always fsyncs before it replies. `replication`: what the nodes are to each
    other. With `disks`, each node has a small file system of that kind to itself, whose power can be cut. With a
    `clock_library`, each node has a wall clock of its own, which can be set (`cluster.wall_clock`). `access`: who may
    talk to the servers.
    """

    server: ServerProgram
    resource_server: ServerProgram
    toxiproxy: ToxiproxyProgram
    nodes: tuple[str, ...]
    clients: tuple[str, ...]
    policy: Policy = "none"
    replication: Replication = "none"
    disks: FileSystem | None = None
    clock_library: Path | None = None
    access: Access = field(default_factory=partial(Access.fresh, closed=False))

    @property
    def policies(self) -> Mapping[str, Policy]:
        """The persistence of every server: the nodes in order, the resource, the sentinels."""
        return {
            **dict.fromkeys(self.nodes, self.policy),
            RESOURCE: RESOURCE_POLICY,
            **dict.fromkeys(self.sentinels, "none"),
        }

    @property
    def programs(self) -> Mapping[str, ServerProgram]:
        """What every server runs: the nodes in order, the resource, the sentinels."""
        return {
            **dict.fromkeys(self.nodes, self.server),
            RESOURCE: self.resource_server,
            **dict.fromkeys(self.sentinels, replace(self.server, is_sentinel=True)),
        }

    @property
    def group(self) -> Group | None:
        """What the nodes are to each other if they are one group."""
        return self.server.server.group

    @property
    def sentinels(self) -> tuple[str, ...]:
        """The names of the sentinels that watch the nodes."""
        return sentinels_of(self.replication, self.nodes, self.group)

    @property
    def hosts(self) -> Mapping[str, str]:
        """In which member's network each server of a group is: a sentinel is in that of the member beside it. Empty
        without a group."""
        if self.group is None:
            return {}
        return {**dict(zip(self.nodes, self.nodes, strict=True)), **dict(zip(self.sentinels, self.nodes, strict=False))}

    @property
    def link_keys(self) -> tuple[LinkKey, ...]:
        """Who reaches whom through a link of their own: every client reaches every server."""
        return tuple((client, server) for client in self.clients for server in self.programs)

    @property
    def member_link_keys(self) -> tuple[LinkKey, ...]:
        """The links between nodes that copy each other: (replica, primary), whichever node becomes one."""
        return () if self.replication == "none" else tuple(permutations(self.nodes, 2))


RESOURCE_POLICY: Policy = "aof-always"
"""The resource must never lose a write that it acknowledged."""
