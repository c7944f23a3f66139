"""redlock-py, with `Redlock([{"host": …, "port": …}])` as its README shows and its own defaults.

The library's bugs are part of what is tested: nothing is fixed here. Its redis-py clients, created from a host and a
port, retry.
"""

from importlib.metadata import version

import redlock
from fencepost_adapter import Answer, BoundedCall, Nodes, Settings, describe_redis, fail, info, ok, serve, warm_up


class RedlockPy:
    """`lock` returns a lease with a validity in whole milliseconds, computed right before it returns, or False."""

    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        del settings  # the library's own timeouts and delays are part of what is tested
        self._library = redlock.Redlock(
            [{"host": node["host"], "port": node["port"], "db": 0, "password": node.get("password")} for node in nodes]
        )
        warm_up(self._library.servers)
        self._held = {}

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        with BoundedCall() as call:
            try:
                lock = self._library.lock(key, ttl_ms)
            except redlock.MultipleRedlockException as error:
                # Raised when a majority granted the lock and some node failed: the keys stay, and the caller gets no
                # lease.
                return info(error)
        if not lock:
            return fail()
        value = lock.key.decode()
        self._held[value] = lock
        return ok(value=value, validity_ms=lock.validity, **call.bounds())

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        del key, value, ttl_ms
        return fail("redlock-py cannot extend a lock")

    def release(self, key: str, value: str) -> Answer:
        """The library logs errors of a release and does not report whether it succeeded."""
        del key
        self._library.unlock(self._held.pop(value))
        return ok()

    def describe(self) -> Answer:
        return {
            "library": "redlock-py " + version("redlock-py"),
            "retry_count": self._library.retry_count,
            "retry_delay_s": self._library.retry_delay,
            **describe_redis(self._library.servers[0]),
        }


serve(RedlockPy)
