"""The same lock for asyncio, as a context manager; it asks all servers at once."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from quorum_locks.quorum import DELETE_IF_MINE, DRIFT, NODE_TIMEOUT_S, Grant


class NotAcquiredError(Exception):
    """A majority did not agree in time."""


class AsyncQuorumLock:
    """`async with AsyncQuorumLock(["redis://…", …]).lock("key", ttl_s=1) as grant: …`."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._servers = [
            redis.asyncio.Redis.from_url(url, socket_timeout=NODE_TIMEOUT_S, retry=Retry(NoBackoff(), 0))
            for url in urls
        ]

    @asynccontextmanager
    async def lock(self, key: str, ttl_s: float) -> AsyncIterator[Grant]:
        """Raises NotAcquiredError."""
        value, began_s, ttl_ms = secrets.token_hex(16), time.monotonic(), round(ttl_s * 1000)
        replies = await self._ask_all("set", key, value, nx=True, px=ttl_ms)
        grant = Grant(key, value, began_s + ttl_s * (1 - DRIFT) - 0.002)
        try:
            if replies.count(True) <= len(self._servers) // 2 or time.monotonic() >= grant.deadline_s:
                raise NotAcquiredError(key)
            yield grant
        finally:
            await self._ask_all("eval", DELETE_IF_MINE, 1, key, value)

    async def _ask_all(self, command: str, *arguments: object, **options: object) -> list[object]:
        """A reply from each server; an error where there was none."""
        asked = [getattr(server, command)(*arguments, **options) for server in self._servers]
        return await asyncio.gather(*asked, return_exceptions=True)
