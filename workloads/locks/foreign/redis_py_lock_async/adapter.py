"""redis-py's own `Lock` for asyncio on the first node, made by `client.lock(name, timeout=…, blocking_timeout=…)`.

The library's bugs are part of what is tested: nothing is fixed here. `acquire` returns True, or False after a SET NX of
each attempt was refused. The lease of a yes began no earlier than the attempt that succeeded.
"""

import time
from importlib.metadata import version

import redis.asyncio
from fencepost_adapter import Answer, Attempts, Nodes, Settings, describe_redis, fail, ok
from fencepost_adapter_async import serve, warm_up
from redis.exceptions import LockNotOwnedError


class AsyncRedisPyLock:
    def __init__(self, client: redis.asyncio.Redis, blocking_timeout_s: float) -> None:
        self._client = client
        self._attempts = Attempts(client, "set")
        self._blocking_timeout_s = blocking_timeout_s
        self._held = {}

    async def acquire(self, key: str, ttl_ms: int) -> Answer:
        lock = self._client.lock(key, timeout=ttl_ms / 1000, blocking_timeout=self._blocking_timeout_s)
        if not await lock.acquire():
            return fail("acquire returned False")
        bounds = self._attempts.bounds()
        value = lock.local.token.decode()
        self._held[value] = lock
        return ok(value=value, **bounds)

    async def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        """With `replace_ttl`, the lease lasts for the TTL from now on; by default the TTL is added to what is left."""
        del key
        before_ns = time.monotonic_ns()
        try:
            await self._held[value].extend(ttl_ms / 1000, replace_ttl=True)
        except LockNotOwnedError as error:
            return fail(error)
        return ok(value=value, computed_after_ns=before_ns, computed_before_ns=time.monotonic_ns())

    async def release(self, key: str, value: str) -> Answer:
        del key
        try:
            await self._held.pop(value).release()
        except LockNotOwnedError as error:
            return fail(error)
        return ok()

    def describe(self) -> Answer:
        """The limit is `blocking_timeout`: by its documentation, "the maximum amount of time in seconds to spend trying
        to acquire the lock"."""
        return {
            "library": "redis " + version("redis"),
            "acquire_limit_ms": self._blocking_timeout_s * 1000,
            "blocking_timeout_s": self._blocking_timeout_s,
            **describe_redis(self._client),
        }


async def open_adapter(nodes: Nodes, settings: Settings) -> AsyncRedisPyLock:
    node = nodes[0]
    client = redis.asyncio.Redis(host=node["host"], port=node["port"], password=node.get("password"))
    await warm_up([client.ping()])
    return AsyncRedisPyLock(client, settings["manifest"]["blocking_timeout_s"])


serve(open_adapter)
