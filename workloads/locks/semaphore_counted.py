"""A semaphore in which every node counts: a node admits up to `--permits` members, and a client needs the votes of more
than `n·k / (k + 1)` of the n nodes.

A majority is not enough: with 5 nodes and 2 permits there are 10 votes, which is 3 times a majority of 3. With the
larger quorum, k + 1 holders would need more votes than the nodes have. The price: with 5 nodes, 2 or 3 permits need 4
nodes, and more permits need all of them.

A node keeps the members of the key `k` in the sorted set `k#members`, each with the time at which it expires.
"""

from __future__ import annotations

from workloads.connection import pack
from workloads.locks.redlock import Redlock

ADMIT_SCRIPT = b"""\
local time = redis.call("time")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("zremrangebyscore", KEYS[1], "-inf", now)
if redis.call("zcard", KEYS[1]) >= tonumber(ARGV[3]) then
    return false
end
redis.call("zadd", KEYS[1], now + ARGV[2], ARGV[1])
if redis.call("pttl", KEYS[1]) < tonumber(ARGV[2]) then
    redis.call("pexpire", KEYS[1], ARGV[2])
end
return redis.status_reply("OK")"""

EXTEND_SCRIPT = b"""\
local time = redis.call("time")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expires = redis.call("zscore", KEYS[1], ARGV[1])
if not expires or tonumber(expires) <= now then
    return 0
end
redis.call("zadd", KEYS[1], now + ARGV[2], ARGV[1])
if redis.call("pttl", KEYS[1]) < tonumber(ARGV[2]) then
    redis.call("pexpire", KEYS[1], ARGV[2])
end
return 1"""


class CountedSemaphore(Redlock):
    """Redlock with other requests and another quorum."""

    def quorum(self) -> int:
        permits = self._settings.permits
        return len(self._pool) * permits // (permits + 1) + 1

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", ADMIT_SCRIPT, 1, _members(key), value, ttl_ms, self._settings.permits)

    def release_request(self, key: str, value: str) -> bytes:
        return pack("ZREM", _members(key), value)

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", EXTEND_SCRIPT, 1, _members(key), value, ttl_ms)

    def describe(self) -> dict[str, object]:
        return super().describe() | {"permits": self._settings.permits}


def _members(key: str) -> str:
    return f"{key}#members"


LOCK = CountedSemaphore
