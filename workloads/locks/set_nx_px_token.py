"""SET NX PX on the first node only, with a fencing token that one script grants together with the lock."""

from __future__ import annotations

from collections.abc import Sequence

from workloads.base import LockSettings, NodeAddress
from workloads.locks.redlock_token import RedlockToken


class SetNxPxToken(RedlockToken):
    """Uses only `nodes[0]`, whose count is linearizable for as long as it forgets nothing."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes[:1], settings)


LOCK = SetNxPxToken
