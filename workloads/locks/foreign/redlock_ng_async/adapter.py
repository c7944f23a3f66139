"""redlock-ng's `AsyncRedlock([urls])`, with its own defaults.

The library's bugs are part of what is tested: nothing is fixed here.
"""

from importlib.metadata import version

import redlock
from fencepost_adapter import Answer, BoundedCall, Nodes, Settings, describe_redis, fail, ok
from fencepost_adapter_async import serve, warm_up


class AsyncRedlockNg:
    """`acquire` returns a lease with a validity in whole milliseconds, computed right before it returns."""

    def __init__(self, library: redlock.AsyncRedlock) -> None:
        self._library = library
        self._held = {}

    async def acquire(self, key: str, ttl_ms: int) -> Answer:
        with BoundedCall() as call:
            lock = await self._library.acquire(key, ttl_ms)
        if lock is None:
            return fail()
        self._held[lock.value] = lock
        return ok(value=lock.value, validity_ms=lock.validity, **call.bounds())

    async def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        del key, value, ttl_ms
        return fail("AsyncRedlock has no extend")

    async def release(self, key: str, value: str) -> Answer:
        """The library does not report whether a release succeeded, even when no node could be reached."""
        del key
        await self._library.release(self._held.pop(value))
        return ok()

    def describe(self) -> Answer:
        """It has no limit for an acquire: a request that has to connect first also waits for the replies to the
        connection's handshake, each for the socket's timeout."""
        return {
            "library": "redlock-ng " + version("redlock-ng"),
            "retry_count": self._library.retry_count,
            "retry_delay_s": [self._library.retry_delay_min, self._library.retry_delay_max],
            **describe_redis(self._library.client.instances[0]),
        }


async def open_adapter(nodes: Nodes, settings: Settings) -> AsyncRedlockNg:
    del settings  # the library's own timeouts and delays are part of what is tested
    library = redlock.AsyncRedlock([node["url"] for node in nodes])
    await warm_up(client.ping() for client in library.client.instances)
    return AsyncRedlockNg(library)


serve(open_adapter)
