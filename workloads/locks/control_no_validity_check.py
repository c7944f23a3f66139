"""A control, broken on purpose: Redlock that counts the whole TTL from when the replies arrived, however long they
took, and grants the lock even if the lease has already expired."""

from __future__ import annotations

from workloads.locks.redlock import Redlock


class NoValidityCheck(Redlock):
    """On slow links, or after a pause during the acquire, it reports a longer validity than it has."""

    def deadline_ns(self, requested_ns: int, answered_ns: int, ttl_ms: int) -> int:
        return answered_ns + ttl_ms * 1_000_000

    def is_valid(self, deadline_ns: int, now_ns: int) -> bool:
        return True


LOCK = NoValidityCheck
