"""SETNX and then PEXPIRE on the first node only: a lock with an expiry, taken in two commands.

If the holder dies between the two, the key stays without an expiry.
"""

from __future__ import annotations

from workloads.base import Lease
from workloads.connection import Reply, pack
from workloads.locks.set_nx_px import SetNxPx


class SetNxExpire(SetNxPx):
    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("SETNX", key, value)

    def grants(self, reply: Reply) -> bool:
        return reply == 1

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        """Raises TimeoutError if the second command was not answered."""
        lease = super().try_once(key, ttl_ms)
        if lease is not None and self._ask(pack("PEXPIRE", key, ttl_ms)) != [1]:
            raise TimeoutError("the node did not say that the key expires")
        return lease


LOCK = SetNxExpire
