"""redis-py's own `Lock`, made by `client.lock(name, timeout=…, blocking_timeout=…)`: on the first node, on the primary
that sentinels name, or on a Redis Cluster.

The library's bugs are part of what is tested: nothing is fixed here. `acquire` returns True, or False after a SET NX of
each attempt was refused. The lease of a yes began no earlier than the attempt that succeeded.
"""

import time
from importlib.metadata import version

import redis
from fencepost_adapter import Answer, Attempts, Nodes, Settings, describe_redis, fail, ok, serve, warm_up
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import LockNotOwnedError
from redis.sentinel import Sentinel

GROUP = "fencepost"
"""What sentinels call the primary and its replicas."""


class LinkedSentinel(Sentinel):
    """Sentinels speak of a server by the address at which it listens; a client dials its own link to it."""

    links: "dict[tuple[str, int], tuple[str, int]]"

    def discover_master(self, service_name: str) -> "tuple[str, int]":
        host, port = super().discover_master(service_name)
        return self.links[host, int(port)]


def opened(nodes: Nodes, settings: Settings) -> "redis.Redis | RedisCluster":
    password, client = nodes[0].get("password"), settings["manifest"].get("client")
    links = {tuple(node["known_as"]): (node["host"], node["port"]) for node in nodes if client}
    if client == "cluster":
        start = [ClusterNode(node["host"], node["port"]) for node in nodes]
        return RedisCluster(
            startup_nodes=start, password=password, address_remap=lambda address: links.get(address, address)
        )
    if client == "sentinel":
        timeout_s = settings["manifest"]["socket_timeout_s"]
        sentinel = LinkedSentinel(
            [(one["host"], one["port"]) for one in settings["sentinels"]],
            sentinel_kwargs={"password": password, "socket_timeout": timeout_s},
        )
        sentinel.links = links
        return sentinel.master_for(GROUP, password=password, socket_timeout=timeout_s)
    return redis.Redis(host=nodes[0]["host"], port=nodes[0]["port"], password=password)


class RedisPyLock:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        self._client = opened(nodes, settings)
        self._attempts = Attempts(self._client, "set")
        self._blocking_timeout_s = settings["manifest"]["blocking_timeout_s"]
        warm_up([self._client])
        self._held = {}

    def acquire(self, key: str, ttl_ms: int) -> Answer:
        lock = self._client.lock(key, timeout=ttl_ms / 1000, blocking_timeout=self._blocking_timeout_s)
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
        """The limit is `blocking_timeout`: by its documentation, "the maximum amount of time in seconds to spend trying
        to acquire the lock"."""
        client = self._client
        if isinstance(client, RedisCluster):
            client = client.get_redis_connection(client.get_default_node())
        return {
            "library": "redis " + version("redis"),
            "acquire_limit_ms": self._blocking_timeout_s * 1000,
            "blocking_timeout_s": self._blocking_timeout_s,
            **describe_redis(client),
        }


serve(RedisPyLock)
