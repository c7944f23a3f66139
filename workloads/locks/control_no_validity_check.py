"""A control, broken on purpose: Redlock that tells the whole TTL from the moment at which it got the replies, however
long they took, and grants also what has ended meanwhile."""

from __future__ import annotations

from workloads.locks.redlock import Redlock


class NoValidityCheck(Redlock):
    """On slow links, or after a pause within the acquire, it tells more than it has."""

    def deadline_ns(self, requested_ns: int, answered_ns: int, ttl_ms: int) -> int:
        return answered_ns + ttl_ms * 1_000_000

    def is_valid(self, deadline_ns: int, now_ns: int) -> bool:
        return True


LOCK = NoValidityCheck
