"""How many requests the nodes turned away for want of a login or of a right, as their servers counted them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from cluster.base import Node
from cluster.parallel import at_once
from fencepost.history import Denied

_WITHIN_MS: Final = 500.0


def read_denials(nodes: Iterable[Node]) -> list[Denied]:
    """Since each node was started last. Nothing of a node that does not answer, or whose server does not count it."""
    return [denied for of_node in at_once([partial(_of_node, node) for node in nodes]) for denied in of_node]


def _of_node(node: Node) -> list[Denied]:
    if node.server.read_denials is None:
        return []
    try:
        counts = node.server.read_denials(node.address, _WITHIN_MS)
    except OSError:
        return []
    return [Denied(node.name, error, times) for error, times in counts.items()]
