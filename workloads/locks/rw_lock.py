"""A read-write lock by majority: each node lets in any number of readers, or one writer.

A node keeps the writer of the key `k` in `k`, as in Redlock, and its readers in the sorted set `k#readers`, each with
the time at which it expires. A writer and any other client would need two majorities, which share a node. Readers that
keep coming keep a writer out for as long as they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from workloads.base import Lease, LockSettings, NodeAddress
from workloads.connection import pack
from workloads.locks.redlock import Redlock

DROP_EXPIRED = b"""\
local time = redis.call("time")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("zremrangebyscore", KEYS[2], "-inf", now)
"""

WRITE_SCRIPT = b"""\
if redis.call("exists", KEYS[1], KEYS[2]) > 0 then
    return false
end
return redis.call("set", KEYS[1], ARGV[1], "px", ARGV[2])"""

READ_SCRIPT = b"""\
if redis.call("exists", KEYS[1]) > 0 then
    return false
end
redis.call("zadd", KEYS[2], now + ARGV[2], ARGV[1])
if redis.call("pttl", KEYS[2]) < tonumber(ARGV[2]) then
    redis.call("pexpire", KEYS[2], ARGV[2])
end
return redis.status_reply("OK")"""

EXTEND_SCRIPT = b"""\
if not redis.call("zscore", KEYS[2], ARGV[1]) then
    return 0
end
redis.call("zadd", KEYS[2], now + ARGV[2], ARGV[1])
if redis.call("pttl", KEYS[2]) < tonumber(ARGV[2]) then
    redis.call("pexpire", KEYS[2], ARGV[2])
end
return 1"""


class Readers(Redlock):
    """Redlock with the requests of a reader."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", DROP_EXPIRED + READ_SCRIPT, 2, key, readers_of(key), value, ttl_ms)

    def release_request(self, key: str, value: str) -> bytes:
        return pack("ZREM", readers_of(key), value)

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", DROP_EXPIRED + EXTEND_SCRIPT, 2, key, readers_of(key), value, ttl_ms)


class ReadWriteLock(Redlock):
    """Redlock with the requests of a writer. A reader's lease has the `Readers` as its `handle`."""

    READERS: ClassVar[type[Readers]] = Readers

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._readers = self.READERS(nodes, settings)

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", DROP_EXPIRED + WRITE_SCRIPT, 2, key, readers_of(key), value, ttl_ms)

    def acquire_shared(self, key: str, ttl_ms: int) -> Lease | None:
        return self._of_reader(self._readers.acquire(key, ttl_ms))

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        if lease.handle is None:
            return super().extend(lease, ttl_ms)
        return self._of_reader(self._readers.extend(lease, ttl_ms))

    def release(self, lease: Lease) -> bool:
        return super().release(lease) if lease.handle is None else self._readers.release(lease)

    def close(self) -> None:
        super().close()
        self._readers.close()

    def _of_reader(self, lease: Lease | None) -> Lease | None:
        return None if lease is None else replace(lease, handle=self._readers)


def readers_of(key: str) -> str:
    """What the key of the readers is called on the nodes."""
    return f"{key}#readers"


LOCK = ReadWriteLock
