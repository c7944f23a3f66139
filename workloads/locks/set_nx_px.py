"""SET NX PX on the first node only, released by a script that compares the value: the "Correct Implementation with a
Single Instance" of the Redis documentation.

It is Redlock with one node, including its allowance for drift, so that the two differ only in the number of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from workloads.base import LockSettings, NodeAddress
from workloads.locks.redlock import Redlock


class SetNxPx(Redlock):
    """Uses only `nodes[0]`."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes[:1], settings)


LOCK = SetNxPx
