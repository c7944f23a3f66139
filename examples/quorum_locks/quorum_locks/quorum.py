"""A lock on a majority of Redis servers, after the Redlock algorithm."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

DELETE_IF_MINE = 'return redis.call("get", KEYS[1]) == ARGV[1] and redis.call("del", KEYS[1]) or 0'
DRIFT = 0.01
"""Clocks of servers run at different rates, and a key may expire this share of its time early."""
NODE_TIMEOUT_S = 0.05


@dataclass(frozen=True)
class Grant:
    """The lock is held until `deadline_s`, on `time.monotonic`."""

    key: str
    value: str
    deadline_s: float


class QuorumLock:
    """`QuorumLock(["redis://…", …])`; one attempt an acquire."""

    def __init__(self, urls: Sequence[str]) -> None:
        # Without retries: a SET whose reply was lost must not be sent again, because it would find its own key.
        self._servers = [
            redis.Redis.from_url(url, socket_timeout=NODE_TIMEOUT_S, retry=Retry(NoBackoff(), 0)) for url in urls
        ]
        for server in self._servers:
            _ask(server.ping)

    @property
    def majority(self) -> int:
        return len(self._servers) // 2 + 1

    def acquire(self, key: str, ttl_s: float) -> Grant | None:
        """A grant, or None if a majority did not agree in time."""
        value, began_s, ttl_ms = secrets.token_hex(16), time.monotonic(), round(ttl_s * 1000)
        agreed = sum(_ask(server.set, key, value, nx=True, px=ttl_ms) is True for server in self._servers)
        grant = Grant(key, value, began_s + ttl_s * (1 - DRIFT) - 0.002)
        if agreed >= self.majority and time.monotonic() < grant.deadline_s:
            return grant
        self.release(grant)
        return None

    def release(self, grant: Grant) -> None:
        for server in self._servers:
            _ask(server.eval, DELETE_IF_MINE, 1, grant.key, grant.value)


def _ask(command: object, *arguments: object, **options: object) -> object:
    """The reply, or None if there was none."""
    try:
        return command(*arguments, **options)  # type: ignore[operator]
    except redis.RedisError:
        return None
