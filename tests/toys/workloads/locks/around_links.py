"""A toy lock that is broken on purpose: Redlock that leaves its links alone and dials the nodes' own addresses.

With `AROUND` in the environment (`c1,c2`, or `n1`) only these clients do so, or only to reach these nodes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from workloads.base import LockSettings, NodeAddress
from workloads.locks.redlock import Redlock


class AroundLinks(Redlock):
    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        assert settings.log_path is not None
        client, names = settings.log_path.name.partition(".")[0], os.environ.get("AROUND", "").split(",")
        everywhere = client in names or names == [""]
        super().__init__(
            [_direct(node) if everywhere or f"n{at}" in names else node for at, node in enumerate(nodes, 1)], settings
        )


def _direct(node: NodeAddress) -> NodeAddress:
    assert node.known_as is not None
    host, port = node.known_as
    return replace(node, host=host, port=port, url=node.url.replace(f"{node.host}:{node.port}", f"{host}:{port}"))


LOCK = AroundLinks
