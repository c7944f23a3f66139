"""aioredlock's `Aioredlock([urls])`, with its own defaults.

The library's bugs are part of what is tested: nothing is fixed here. `lock` returns a lock that is `valid`, without
saying for how long, or raises: a `LockAcquiringError` if the nodes refused, and other errors if some of them failed.
The lease of a yes began no earlier than the attempt that succeeded.

A lock without a timeout of its own is renewed: with --renewal, the adapter answers what `valid` says.
"""

from importlib.metadata import version

from aioredlock import Aioredlock
from aioredlock.errors import LockAcquiringError
from fencepost_adapter import Answer, Attempts, Nodes, Settings, fail, ok
from fencepost_adapter_async import serve, warm_up


class Adapter:
    def __init__(self, library: Aioredlock, renews: bool) -> None:
        self._library = library
        self._attempts = Attempts(library.redis, "set_lock")
        self._renews = renews
        self._held = {}

    async def acquire(self, key: str, ttl_ms: int) -> Answer:
        if self._renews:
            self._library.internal_lock_timeout = ttl_ms / 1000
        try:
            lock = await self._library.lock(key, lock_timeout=None if self._renews else ttl_ms / 1000)
        except LockAcquiringError as error:
            return fail(error)
        bounds = self._attempts.bounds()
        self._held[lock.id] = lock
        return ok(value=lock.id, **bounds)

    async def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        del key
        try:
            await self._library.extend(self._held[value], lock_timeout=ttl_ms / 1000)
        except LockAcquiringError as error:
            return fail(error)
        return ok(value=value, **self._attempts.bounds())

    async def held(self, key: str, value: str) -> Answer:
        del key
        return ok() if self._held[value].valid else fail("valid is False")

    async def release(self, key: str, value: str) -> Answer:
        """A node on which the key is gone counts as released."""
        del key
        lock = self._held.pop(value)
        was_valid = lock.valid
        try:
            await self._library.unlock(lock)
        except LockAcquiringError as error:
            return fail(error)
        return ok() if was_valid else fail("the lock was lost before")

    def describe(self) -> Answer:
        """It has no limit for an acquire, because there is none for a command."""
        return {
            "library": "aioredlock " + version("aioredlock"),
            "aioredis": version("aioredis"),
            "retry_count": self._library.retry_count,
            "retry_delay_s": [self._library.retry_delay_min, self._library.retry_delay_max],
            "renews_after": "0.6 TTL" if self._renews else "never",
            "command_timeout_s": None,
        }


async def open_adapter(nodes: Nodes, settings: Settings) -> Adapter:
    library = Aioredlock([node["url"] for node in nodes])
    await warm_up(instance.connect() for instance in library.redis.instances)
    return Adapter(library, settings.get("renewal_ms") is not None)


serve(open_adapter)
