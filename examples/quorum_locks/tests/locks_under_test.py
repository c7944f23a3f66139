"""How the clients of a run use our locks: each makes one of these, with the nodes of that run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from quorum_locks import AsyncQuorumLock, Grant, NotAcquiredError, QuorumLock

from pytest_fencepost import Lease


def lease_of(grant: Grant) -> Lease:
    return Lease(grant.value, deadline_ns=int(grant.deadline_s * 1e9))


class Quorum:
    make = QuorumLock

    def __init__(self, nodes: Sequence[Any]) -> None:
        self._lock = self.make([node.url for node in nodes])
        self._grants: dict[str | bytes, Grant] = {}

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        grant = self._lock.acquire(key, ttl_ms / 1000)
        if grant is None:
            return None
        self._grants[grant.value] = grant
        return lease_of(grant)

    def release(self, lease: Lease) -> None:
        self._lock.release(self._grants.pop(lease.value))


class AsyncQuorum:
    refused_by = (NotAcquiredError,)

    def __init__(self, nodes: Sequence[Any]) -> None:
        self._lock = AsyncQuorumLock([node.url for node in nodes])

    @asynccontextmanager
    async def lock(self, key: str, ttl_ms: int) -> AsyncIterator[Lease]:
        async with self._lock.lock(key, ttl_ms / 1000) as grant:
            yield lease_of(grant)
