"""A toy lock: SET NX PX on the first node, released without comparing."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from workloads.base import Lease, LockSettings, NodeAddress


class OneNode:
    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        timeout_s = settings.node_timeout_ms / 1e3
        self._node = redis.Redis.from_url(nodes[0].url, socket_timeout=timeout_s, retry=Retry(NoBackoff(), 0))
        self._url = nodes[0].url
        self._node.ping()

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        value, asked_ns = secrets.token_hex(8), time.monotonic_ns()
        if not self._node.set(key, value, nx=True, px=ttl_ms):
            return None
        return Lease(key, value, ttl_ms, deadline_ns=asked_ns + ttl_ms * 1_000_000, requested_ns=asked_ns)

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        return None

    def release(self, lease: Lease) -> bool:
        return bool(self._node.delete(lease.key))

    def close(self) -> None:
        self._node.close()

    def describe(self) -> dict[str, object]:
        return {"toy": True, "dials": self._url}


LOCK = OneNode
