"""sherlock's `RedisLock(name, client=…, expire=…, timeout=…)` on the first node.

The library's bugs are part of what is tested: nothing is fixed here. `acquire` returns True, or raises
LockTimeoutException when its time is up. The lease of a yes began no earlier than the attempt that succeeded.
"""

import math
from importlib.metadata import version

import redis
import sherlock
from fencepost_adapter import Answer, Attempts, Nodes, Settings, TimedCall, describe_redis, fail, ok, serve, warm_up

TIMEOUT_S = 1
"""The only setting of ours: by default `acquire` tries for 10 s."""


class Sherlock:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        del settings
        node = nodes[0]
        self._client = redis.StrictRedis(host=node["host"], port=node["port"], password=node.get("password"))
        self._attempts = Attempts(self._client, "evalsha")
        warm_up([self._client])
        self._held = {}

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        expire_s = math.ceil(ttl_ms / 1000)
        lock = sherlock.RedisLock(key, client=self._client, expire=expire_s, timeout=TIMEOUT_S)
        try:
            lock.acquire()
        except sherlock.LockTimeoutException as error:
            return fail(error)
        bounds = self._attempts.bounds()
        value = lock._owner
        self._held[value] = lock
        return ok(value=value, granted_ms=expire_s * 1000, **bounds)

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        """`renew` sets the time again that the lock was made with."""
        del key, ttl_ms
        lock = self._held[value]
        with TimedCall() as call:
            renewed = lock.renew()
        if not renewed:
            return fail("renew returned False")
        return ok(value=value, granted_ms=lock.expire * 1000, **call.bounds())

    def release(self, key: str, value: str) -> Answer:
        del key
        try:
            self._held.pop(value).release()
        except sherlock.LockException as error:
            return fail(error)
        return ok()

    def describe(self) -> Answer:
        """The limit is `timeout`: by its documentation, "set timeout to acquire lock"."""
        return {
            "library": "sherlock " + version("sherlock"),
            "acquire_limit_ms": TIMEOUT_S * 1000,
            "timeout_s": TIMEOUT_S,
            "retry_interval_s": sherlock.RedisLock("none", client=self._client).retry_interval,
            **describe_redis(self._client),
        }


serve(Sherlock)
