"""python-redis-lock's `Lock(client, name, expire=…)` on the first node.

The library's bugs are part of what is tested: nothing is fixed here. `acquire` returns True, or False after a SET NX
was refused for the last time. The lease of a yes began no earlier than the attempt that succeeded. With --renewal, a
thread of the library's extends the lease; whether the lock is still held is what `get_owner_id` says.
"""

import math
import time
from importlib.metadata import version

import redis
import redis_lock
from fencepost_adapter import Answer, Attempts, Nodes, Settings, describe_redis, fail, ok, serve, warm_up

ACQUIRE_TIMEOUT_S = 1
"""The only setting of ours: by default `acquire` waits forever, and a client must return to notice a request to stop.
The library counts in whole seconds."""


class PythonRedisLock:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        node = nodes[0]
        self._client = redis.Redis(host=node["host"], port=node["port"], password=node.get("password"))
        self._attempts = Attempts(self._client, "set")
        self._renews = settings.get("renewal_ms") is not None
        warm_up([self._client])
        self._held = {}

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        expire_s = math.ceil(ttl_ms / 1000)
        lock = redis_lock.Lock(self._client, key, expire=expire_s, auto_renewal=self._renews)
        if not lock.acquire(timeout=ACQUIRE_TIMEOUT_S):
            return fail("acquire returned False")
        bounds = self._attempts.bounds()
        self._held[lock.id] = lock
        return ok(value=lock.id, granted_ms=expire_s * 1000, **bounds)

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        del key
        expire_s = math.ceil(ttl_ms / 1000)
        before_ns = time.monotonic_ns()
        try:
            self._held[value].extend(expire=expire_s)
        except redis_lock.NotAcquired as error:
            return fail(error)
        after_ns = time.monotonic_ns()
        return ok(value=value, granted_ms=expire_s * 1000, computed_after_ns=before_ns, computed_before_ns=after_ns)

    def held(self, key: str, value: str) -> Answer:
        del key
        lock = self._held[value]
        return ok() if lock.get_owner_id() == lock.id else fail("get_owner_id returned another id")

    def release(self, key: str, value: str) -> Answer:
        del key
        try:
            self._held.pop(value).release()
        except redis_lock.NotAcquired as error:
            return fail(error)
        return ok()

    def describe(self) -> Answer:
        """The limit is `timeout`: by its documentation, "the maximum number of seconds to block"."""
        return {
            "library": "python-redis-lock " + version("python-redis-lock"),
            "acquire_limit_ms": ACQUIRE_TIMEOUT_S * 1000,
            "timeout_s": ACQUIRE_TIMEOUT_S,
            "renews_after": "2/3 of expire" if self._renews else "never",
            **describe_redis(self._client),
        }


serve(PythonRedisLock)
