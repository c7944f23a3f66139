"""redlock-ng, with its synchronous `Redlock([urls])` and its own defaults.

The library's bugs are part of what is tested: nothing is fixed here.
"""

from importlib.metadata import version

import redlock
from fencepost_adapter import Answer, BoundedCall, Nodes, Settings, TimedCall, describe_redis, fail, ok, serve, warm_up


class RedlockNg:
    """`acquire` returns a lease with a validity in whole milliseconds, computed right before it returns."""

    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        del settings  # the library's own timeouts and delays are part of what is tested
        self._library = redlock.Redlock([node["url"] for node in nodes])
        warm_up(self._library.client.instances)
        self._held = {}

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        with BoundedCall() as call:
            lock = self._library.acquire(key, ttl_ms)
        if lock is None:
            return fail()
        self._held[lock.value] = lock
        return ok(value=lock.value, validity_ms=lock.validity, **call.bounds())

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        """The library returns yes or no without a validity, so the adapter tells none: a yes is good for the TTL,
        counted from some time within the call."""
        del key
        with TimedCall() as call:
            extended = self._library.extend(self._held[value], ttl_ms)
        if not extended:
            return fail()
        return ok(value=value, **call.bounds())

    def release(self, key: str, value: str) -> Answer:
        """The library does not report whether a release succeeded, even when no node could be reached."""
        del key
        self._library.release(self._held.pop(value))
        return ok()

    def describe(self) -> Answer:
        """`acquire_limit_ms` is the sum of the library's own settings: every attempt asks each node and then releases
        it, over a connection that may have to be made first."""
        library = self._library
        timeouts_s = library.client.config.socket_timeout + library.client.config.socket_connect_timeout
        tries_s = (library.retry_count + 1) * 2 * len(library.client.instances) * timeouts_s
        return {
            "acquire_limit_ms": round((tries_s + library.retry_count * library.retry_delay_max) * 1000),
            "library": "redlock-ng " + version("redlock-ng"),
            "retry_count": self._library.retry_count,
            "retry_delay_s": [self._library.retry_delay_min, self._library.retry_delay_max],
            **describe_redis(self._library.client.instances[0]),
        }


serve(RedlockNg)
