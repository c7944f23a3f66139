"""The resource: what the lock protects. It can check a fencing token.

A Redis of its own with fsync=always, used through Lua scripts, so that every access is one atomic step. Each accepted
write is appended, in the same step, to a list in the resource itself: that list is the truth about who wrote in which
order, whatever any client believes.

Two strengths of fencing, after Kleppmann, "How to do distributed locking" (2016), made precise. A token that only
writes show protects against a write that comes after the next holder's *write*. A write that lands between the next
holder's read and its write passes, because the resource has not seen the larger token yet, and is then overwritten.
Only a token that reads show as well closes that gap.
"""

from __future__ import annotations

from typing import Protocol, cast

import msgspec
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fencepost.history import Write


class StaleTokenError(Exception):
    """The resource has seen a larger token of this key than the one shown; nothing was read or written."""


class Resource(Protocol):
    """What a client may ask of the resource. Any exception but StaleTokenError means that nobody can know (`info`)."""

    def next_token(self, key: str) -> int:
        """Draw the next fencing token of the key: 1, 2, 3, …"""
        ...

    def read(self, key: str, token: int | None) -> int:
        """The counter (0 if it was never written). With a token: refused when a larger one was seen."""
        ...

    def write(self, write: Write, *, check: bool) -> None:
        """Set the counter to `write.value` and record the write. With `check`, its token must not be stale."""
        ...

    def close(self) -> None: ...


_CHECK_TOKEN = """
if ARGV[1] ~= '' then
  local seen = tonumber(redis.call('GET', KEYS[2]) or '0')
  if seen > tonumber(ARGV[1]) then return {seen} end
  if seen < tonumber(ARGV[1]) then redis.call('SET', KEYS[2], ARGV[1]) end
end
"""
"""A table, which no script returns otherwise, means that the token is stale; in it is the largest that was seen."""

_READ = f"""{_CHECK_TOKEN}
return redis.call('GET', KEYS[1])
"""

_WRITE = f"""{_CHECK_TOKEN}
redis.call('SET', KEYS[1], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[3])
return 1
"""

_SWAP = """
local stamp = redis.call('GET', KEYS[2])
if (stamp or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
if ARGV[3] ~= '' then
  redis.call('SET', KEYS[1], ARGV[3])
  redis.call('RPUSH', KEYS[3], ARGV[4])
end
return 1
"""

ACCEPTED = "accepted"
"""The list of accepted writes, oldest first, each a JSON `Write` without its index."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Write).decode


class RedisResource:
    """The resource of a run: a Redis that nobody else uses."""

    def __init__(self, host: str, port: int, timeout_ms: float) -> None:
        self._redis = Redis(
            host=host,
            port=port,
            socket_timeout=timeout_ms / 1000,
            socket_connect_timeout=timeout_ms / 1000,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )
        self._scripts = {text: self._redis.register_script(text) for text in (_READ, _WRITE, _SWAP)}

    def warm_up(self) -> None:
        """Connect and load the scripts, so that no section pays for it. Raises what redis-py raises."""
        for script in self._scripts:
            self._redis.script_load(script)

    def next_token(self, key: str) -> int:
        return int(self._redis.incr(f"token:{key}"))

    def read(self, key: str, token: int | None) -> int:
        value = self._run(_READ, [f"value:{key}", f"seen:{key}"], ["" if token is None else token])
        return int(cast(str, value)) if value is not None else 0

    def write(self, write: Write, *, check: bool) -> None:
        shown: int | str = write.token if check and write.token is not None else ""
        keys = [f"value:{write.key}", f"seen:{write.key}", ACCEPTED]
        self._run(_WRITE, keys, [shown, write.value, _encode(write)])

    def swap(self, key: str, expected: str, unique: str, write: Write | None = None) -> bool:
        """Compare-and-set on a unique value: if the key carries `expected` (empty: nothing yet), it carries `unique`
        from now on and, with `write`, the counter is set in the same step. False: it carried something else."""
        record = ("", "") if write is None else (write.value, _encode(write))
        return bool(self._run(_SWAP, [f"value:{key}", f"stamp:{key}", ACCEPTED], [expected, unique, *record]))

    def accepted_since(self, count: int) -> list[Write]:
        """The accepted writes after the first `count` ones, oldest first."""
        return [_decode(line) for line in cast(list[str], self._redis.lrange(ACCEPTED, count, -1))]

    def _run(self, script: str, keys: list[str], args: list[object]) -> object:
        reply: object = self._scripts[script](keys=keys, args=cast(list[str], args))
        if isinstance(reply, list):
            raise StaleTokenError(f"STALE {reply[0]}")
        return reply

    def close(self) -> None:
        self._redis.close()
