"""The package redlock of PyPI (github.com/glasslion/redlock), with a `RedLockFactory` as its README shows.

The library's bugs are part of what is tested: nothing is fixed here. `acquire` returns True or False, and raises the
first error of a node: then it has released nothing, and what is set is unknown. The lease of a yes began no earlier
than the attempt that succeeded, whose first request goes to the first node.
"""

from importlib.metadata import version

import redlock.lock
from fencepost_adapter import Answer, Attempts, Nodes, Settings, describe_redis, fail, ok, serve, warm_up


class PypiRedlock:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        del settings  # the library's own timeouts and delays are part of what is tested
        self._factory = redlock.RedLockFactory(
            [{"host": node["host"], "port": node["port"], "db": 0, "password": node.get("password")} for node in nodes]
        )
        self._attempts = Attempts(self._factory.redis_nodes[0], "set")
        warm_up(self._factory.redis_nodes)
        self._held = {}

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        lock = self._factory.create_lock(key, ttl=ttl_ms)
        if not lock.acquire():
            return fail()
        bounds = self._attempts.bounds()
        self._held[lock.lock_key] = lock
        return ok(value=lock.lock_key, **bounds)

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        del key, value, ttl_ms
        return fail("redlock cannot extend a lock")

    def release(self, key: str, value: str) -> Answer:
        """The library does not report whether it held the lock; it raises the first error of a node, and then leaves
        out the nodes after that."""
        del key
        self._held.pop(value).release()
        return ok()

    def describe(self) -> Answer:
        return {
            "library": "redlock " + version("redlock"),
            "retry_times": redlock.lock.DEFAULT_RETRY_TIMES,
            "retry_delay_max_ms": redlock.lock.DEFAULT_RETRY_DELAY,
            **describe_redis(self._factory.redis_nodes[0]),
        }


serve(PypiRedlock)
