"""pottery's `AIORedlock`: a new one for every acquire, over clients of redis.asyncio, with the defaults of both.

The library's bugs are part of what is tested: nothing is fixed here.

`acquire` and `extend` return only yes or no, so the adapter tells no validity: a yes is good for `auto_release_time`,
counted from some time between the start and the end of the call. To keep these two close, each call is one attempt, and
the library's own retry loop with its random delay is repeated here.
"""

import asyncio
import random
import time
from importlib.metadata import version

import redis.asyncio
from fencepost_adapter import Answer, Nodes, Settings, describe_redis, fail, info, ok
from fencepost_adapter_async import serve, warm_up
from pottery import AIORedlock, ExtendUnlockedLock, ReleaseUnlockedLock, TooManyExtensions

ACQUIRE_TIMEOUT_S = 1.0
"""The only setting of ours: by default `acquire` waits forever, and a client must return to notice a request to stop.
It is checked only between attempts, and the library is not told of it, so it is not held to that."""


class AsyncPottery:
    def __init__(self, masters: frozenset) -> None:
        self._masters = masters
        self._held = {}

    async def acquire(self, key: str, ttl_ms: int) -> Answer:
        lock = AIORedlock(key=key, masters=self._masters, auto_release_time=ttl_ms / 1000)
        give_up_s = time.monotonic() + ACQUIRE_TIMEOUT_S
        while True:
            before_ns = time.monotonic_ns()
            if await lock.acquire(blocking=False):
                break
            if time.monotonic() >= give_up_s:
                return fail()
            await asyncio.sleep(random.uniform(0, AIORedlock._RETRY_DELAY))
        after_ns = time.monotonic_ns()
        value = lock._uuid  # the library does not expose its unique value, but everybody can see it on the nodes
        self._held[value] = lock
        return ok(value=value, computed_after_ns=before_ns, computed_before_ns=after_ns)

    async def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        """pottery extends by the time with which the lock was created, whatever TTL is requested here."""
        del key, ttl_ms
        lock = self._held[value]
        before_ns = time.monotonic_ns()
        try:
            await lock.extend()
        except TooManyExtensions as error:
            return fail(error)
        except ExtendUnlockedLock as error:
            return info(error) if error.redis_errors else fail(error)
        return ok(value=value, computed_after_ns=before_ns, computed_before_ns=time.monotonic_ns())

    async def release(self, key: str, value: str) -> Answer:
        del key
        try:
            await self._held.pop(value).release()
        except ReleaseUnlockedLock as error:
            return info(error) if error.redis_errors else fail(error)
        return ok()

    def describe(self) -> Answer:
        return {
            "library": "pottery " + version("pottery"),
            "attempts_for_s": ACQUIRE_TIMEOUT_S,
            "retry_delay_max_s": AIORedlock._RETRY_DELAY,
            "extensions_max": AIORedlock._NUM_EXTENSIONS,
            **describe_redis(next(iter(self._masters))),
        }


async def open_adapter(nodes: Nodes, settings: Settings) -> AsyncPottery:
    del settings  # the library's own timeouts and delays are part of what is tested
    masters = frozenset(
        redis.asyncio.Redis(host=node["host"], port=node["port"], password=node.get("password")) for node in nodes
    )
    await warm_up(master.ping() for master in masters)
    return AsyncPottery(masters)


serve(open_adapter)
