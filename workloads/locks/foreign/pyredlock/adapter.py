"""pyredlock's synchronous `Redlock([clients], async_mode=False)`, with the timeouts of its README.

The library's bugs are part of what is tested: nothing is fixed here.
"""

from importlib.metadata import version

import redis
from fencepost_adapter import (
    Answer,
    BoundedCall,
    Nodes,
    Settings,
    TimedCall,
    describe_redis,
    fail,
    info,
    ok,
    serve,
    warm_up,
)
from pyredlock import Redlock

SOCKET_TIMEOUT_S = 0.5
SOCKET_CONNECT_TIMEOUT_S = 0.25
"""Both as in the README."""


class PyRedlock:
    """`lock` returns a lease with a validity in whole milliseconds, computed right before it returns."""

    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        del settings  # the library's own delays are part of what is tested
        self._clients = [
            redis.Redis(
                host=node["host"],
                port=node["port"],
                password=node.get("password"),
                socket_timeout=SOCKET_TIMEOUT_S,
                socket_connect_timeout=SOCKET_CONNECT_TIMEOUT_S,
            )
            for node in nodes
        ]
        self._library = Redlock(connections=self._clients, async_mode=False)
        warm_up(self._clients)
        self._held = {}

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        with BoundedCall() as call:
            granted, lock = self._library.lock(key, ttl_ms)
        if not granted:
            return fail()
        self._held[lock.val] = lock
        return ok(value=lock.val, validity_ms=lock.validity, **call.bounds())

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
        """True says that every node replied, and not whether it held the lock."""
        del key
        return ok() if self._library.unlock(self._held.pop(value)) else info("unlock returned False: a node failed")

    def describe(self) -> Answer:
        return {
            "library": "pyredlock " + version("pyredlock"),
            "retry_count": self._library.retry_count,
            "retry_delay_s": self._library.retry_delay,
            **describe_redis(self._clients[0]),
        }


serve(PyRedlock)
