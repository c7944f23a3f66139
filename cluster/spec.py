"""What a cluster consists of, whichever backend it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.base import RESOURCE
from cluster.persistence import FileSystem, Policy
from cluster.programs import ServerProgram, ToxiproxyProgram


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """`nodes` and `clients` are names; every client gets a link to every server.

    The nodes follow `policy`; the resource always fsyncs before it replies. With `disks`, each node has a small file
    system of that kind to itself, whose power can be cut.
    """

    server: ServerProgram
    toxiproxy: ToxiproxyProgram
    nodes: tuple[str, ...]
    clients: tuple[str, ...]
    policy: Policy = "none"
    disks: FileSystem | None = None

    @property
    def policies(self) -> Mapping[str, Policy]:
        """The persistence of every server: the nodes in order, then the resource."""
        return {**dict.fromkeys(self.nodes, self.policy), RESOURCE: "aof-always"}
