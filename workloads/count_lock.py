"""A lock that is a count on the first node: the client that raises it to one is let in.

A count does not tell whose it is, so a client gives back only what is certainly its own: before its lease is over. This
is no lock for users, but many semaphores are made like this.
"""

from __future__ import annotations

import time

from workloads.base import Lease
from workloads.connection import pack
from workloads.locks.set_nx_px import SetNxPx

_TAKE: bytes = b"""\
if redis.call("incr",KEYS[1]) == 1 then
    redis.call("pexpire",KEYS[1],ARGV[1])
    return redis.status_reply("OK")
end
redis.call("decr",KEYS[1])
return false"""
_GIVE: bytes = b"""\
if redis.call("get",KEYS[1]) then
    redis.call("decr",KEYS[1])
    return 1
end
return 0"""


class CountLock(SetNxPx):
    """A refused request has lowered the count again; the count of one that was not answered expires."""

    TAKE = _TAKE

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", self.TAKE, 1, key, ttl_ms)

    def release_request(self, key: str, value: str) -> bytes:
        return pack("EVAL", _GIVE, 1, key)

    def undo(self, key: str, value: str) -> None:
        pass

    def release(self, lease: Lease) -> bool:
        if lease.deadline_ns is None or time.monotonic_ns() >= lease.deadline_ns:
            return False
        return super().release(lease)
