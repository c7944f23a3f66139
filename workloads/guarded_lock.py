"""A lock that looks and sets within a mutex of its own, a second key on the node: what a lock that leaves its mutex
behind is compared with. One SET would do, so this is no lock for users, but many libraries guard more than that.
"""

from __future__ import annotations

from workloads.base import Lease
from workloads.connection import pack
from workloads.locks.set_nx_px import SetNxPx


class GuardedLock(SetNxPx):
    """On `nodes[0]`. A call that finds the mutex taken has asked in vain."""

    def mutex_request(self, key: str, ttl_ms: int) -> bytes:
        """Takes the mutex. The one of a call that did not end is gone a lease later."""
        return pack("SET", f"{key}:mutex", "taken", "NX", "PX", ttl_ms)

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        if self._ask(self.mutex_request(key, ttl_ms)) != [b"OK"]:
            return None
        lease = super().try_once(key, ttl_ms)
        self._ask(pack("DEL", f"{key}:mutex"))
        return lease
