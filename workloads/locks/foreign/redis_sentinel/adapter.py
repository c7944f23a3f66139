"""redis-py's own `Lock` on the primary, which its `Sentinel` finds by asking one sentinel after the other.

The library's bugs are part of what is tested: nothing is fixed here but the addresses. A sentinel speaks of a server by
the address at which that server listens, and clients reach it through a link of their own.
"""

import time
from importlib.metadata import version

from fencepost_adapter import Answer, Attempts, Nodes, Settings, fail, ok, serve, warm_up
from redis.exceptions import LockNotOwnedError
from redis.sentinel import Sentinel

GROUP = "fencepost"


class LinkedSentinel(Sentinel):
    """One that answers with the client's own link to the primary."""

    links: "dict[tuple[str, int], tuple[str, int]]"

    def discover_master(self, service_name: str) -> "tuple[str, int]":
        host, port = super().discover_master(service_name)
        return self.links[host, int(port)]


class RedisSentinelLock:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        chosen, password = settings["manifest"], nodes[0].get("password")
        timeouts = {"socket_timeout": chosen["socket_timeout_s"]}
        sentinel = LinkedSentinel(
            [(one["host"], one["port"]) for one in settings["sentinels"]],
            sentinel_kwargs={"password": password, **timeouts},
        )
        sentinel.links = {tuple(node["known_as"]): (node["host"], node["port"]) for node in nodes}
        self._client = sentinel.master_for(GROUP, password=password, **timeouts)
        self._chosen = chosen
        self._attempts = Attempts(self._client, "set")
        warm_up([self._client])
        self._held = {}

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        lock = self._client.lock(key, timeout=ttl_ms / 1000, blocking_timeout=self._chosen["blocking_timeout_s"])
        if not lock.acquire():
            return fail("acquire returned False")
        bounds = self._attempts.bounds()
        value = lock.local.token.decode()
        self._held[value] = lock
        return ok(value=value, **bounds)

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        """With `replace_ttl`, the lease lasts for the TTL from now on; by default the TTL is added to what is left."""
        del key
        before_ns = time.monotonic_ns()
        try:
            self._held[value].extend(ttl_ms / 1000, replace_ttl=True)
        except LockNotOwnedError as error:
            return fail(error)
        return ok(value=value, computed_after_ns=before_ns, computed_before_ns=time.monotonic_ns())

    def release(self, key: str, value: str) -> Answer:
        del key
        try:
            self._held.pop(value).release()
        except LockNotOwnedError as error:
            return fail(error)
        return ok()

    def describe(self) -> Answer:
        return {
            "library": "redis " + version("redis"),
            "acquire_limit_ms": self._chosen["blocking_timeout_s"] * 1000,
            **self._chosen,
        }


serve(RedisSentinelLock)
