"""SET NX PX on the first node alone, released by a script that compares: what the Redis documentation calls the
"Correct Implementation with a Single Instance".

It is Redlock over one node, with its allowance for drift, so that the two differ in nothing but the number of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from workloads.base import LockSettings, NodeAddress
from workloads.locks.redlock import Redlock


class SetNxPx(Redlock):
    """Uses `nodes[0]` and no other."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes[:1], settings)


LOCK = SetNxPx
