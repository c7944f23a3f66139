"""A control, broken on purpose: Redlock that extends the key by its name, whichever client has it by then."""

from __future__ import annotations

from workloads.connection import pack
from workloads.locks.redlock import Redlock


class ExtendsWithoutComparing(Redlock):
    """A client that was stopped for longer than its lease extends the next holder's key, and is told that it still
    holds the lock."""

    def may_extend(self, lease_deadline_ns: int, now_ns: int) -> bool:
        return True

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("PEXPIRE", key, ttl_ms)


LOCK = ExtendsWithoutComparing
