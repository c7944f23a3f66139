"""The lock on a primary, which waits until one replica has acknowledged the key (WAIT 1)."""

from __future__ import annotations

from workloads.connection import Reply, pack
from workloads.locks.primary_replica import PrimaryReplica


class PrimaryReplicaWait(PrimaryReplica):
    """What no replica acknowledges in half of a node's time limit is not granted."""

    def acquire_limit_ms(self) -> float:
        """Every request is followed by the wait for its replication."""
        return 2 * super().acquire_limit_ms()

    def _ask(self, request: bytes) -> list[Reply]:
        replies = super()._ask(request)
        acknowledged = super()._ask(pack("WAIT", 1, max(1, int(self._settings.node_timeout_ms / 2))))
        return [
            reply if isinstance(by, int) and by >= 1 else None for reply, by in zip(replies, acknowledged, strict=True)
        ]


LOCK = PrimaryReplicaWait
