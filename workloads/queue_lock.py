"""A lock that is granted in the order of asking: what a lock that is not fair is compared with.

A client that dies while it waits keeps the others out until the queue expires, so this is no lock for users.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from workloads.base import Lease, LockSettings, NodeAddress
from workloads.connection import Reply, pack
from workloads.locks.set_nx_px import SetNxPx

_ENTER: Final = b"""\
if not redis.call("lpos",KEYS[2],ARGV[1]) then
    redis.call("rpush",KEYS[2],ARGV[1])
end
redis.call("pexpire",KEYS[2],ARGV[3])
if redis.call("lindex",KEYS[2],0) == ARGV[1] and redis.call("set",KEYS[1],ARGV[1],"NX","PX",ARGV[2]) then
    redis.call("lpop",KEYS[2])
    return redis.status_reply("OK")
end
return false"""
_LOOK: Final = b"""\
if not redis.call("lpos",KEYS[1],ARGV[1]) then
    redis.call("rpush",KEYS[1],ARGV[1])
end
redis.call("pexpire",KEYS[1],ARGV[2])
return redis.call("lindex",KEYS[1],0)"""
_QUEUE_KEPT_TTLS: Final = 10


class _Place(threading.local):
    """`value`: what stands in the queue for this thread, as long as it asks."""

    value = ""


class QueueLock(SetNxPx):
    """On `nodes[0]`. A client asks again and again; its place in the queue is that of its first request."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._place = _Place()

    def unique_value(self) -> str:
        """The same in every round of one acquire."""
        return self._place.value

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", _ENTER, 2, key, _queue(key), value, ttl_ms, _QUEUE_KEPT_TTLS * ttl_ms)

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        self._place.value = super().unique_value()
        lease = super().acquire(key, ttl_ms)
        if lease is None:
            self._ask(pack("LREM", _queue(key), 0, self._place.value))
        return lease


class TurnLock(QueueLock):
    """A client asks for the lock itself only when it is the first in the queue. One that is the first for a lease is
    taken for gone, and taken out; it comes back when it looks again."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._seen: tuple[Reply, int] = None, 0
        """Who is the first, and since when."""

    def look_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        """Asks who is the first."""
        return pack("EVAL", _LOOK, 1, _queue(key), value, _QUEUE_KEPT_TTLS * ttl_ms)

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        value, now_ns = self.unique_value(), time.monotonic_ns()
        (first,) = self._ask(self.look_request(key, value, ttl_ms))
        if first == value.encode():
            return super().try_once(key, ttl_ms)
        if first != self._seen[0]:
            self._seen = first, now_ns
        elif isinstance(first, bytes) and now_ns - self._seen[1] > ttl_ms * 1_000_000:
            self._ask(pack("LREM", _queue(key), 0, first))
        return None


def _queue(key: str) -> str:
    return f"{key}:queue"
