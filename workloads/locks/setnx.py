"""SETNX on the first node only, without an expiry: the client that set the key holds the lock until it deletes the key.

If the holder dies, no other client ever gets the lock. The release compares the value, like `set-nx-px`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from workloads.base import Lease
from workloads.connection import Reply, pack
from workloads.locks.set_nx_px import SetNxPx

FOREVER_MS: Final = 365 * 86_400_000
"""A lease must have an end; no client waits for this one."""


class SetNx(SetNxPx):
    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("SETNX", key, value)

    def grants(self, reply: Reply) -> bool:
        return reply == 1

    def deadline_ns(self, requested_ns: int, answered_ns: int, ttl_ms: int) -> int:
        return super().deadline_ns(requested_ns, answered_ns, FOREVER_MS)

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        lease = super().try_once(key, ttl_ms)
        return None if lease is None else replace(lease, granted_ms=FOREVER_MS)


LOCK = SetNx
