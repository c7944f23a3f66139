"""Broken locks that show only under a habit of their users (`harness.habits`), one for each."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.correct_locks import GivesUpWaiting
from workloads.base import Lease, LockSettings, NodeAddress
from workloads.connection import Reply, pack
from workloads.locks.redlock import Redlock
from workloads.queue_lock import QueueLock

FREE_ALL_THAT_BEGINS_SO = b"""\
if redis.call("get",KEYS[1]) ~= ARGV[1] then return 0 end
for _, key in ipairs(redis.call("keys",KEYS[1] .. "*")) do redis.call("del",key) end
return 1"""

FREE_ALL = b"""\
for _, key in ipairs(redis.call("keys","k*")) do redis.call("del",key) end
return 1"""


class OwnedByTheProcess(Redlock):
    """`tasks`: what one task of a client holds, its other tasks hold, too."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._held: dict[str, Lease] = {}

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        old = self._held.get(key)
        if old is not None and old.deadline_ns is not None and time.monotonic_ns() < old.deadline_ns:
            return Lease(key, old.value, deadline_ns=old.deadline_ns)
        if (lease := super().acquire(key, ttl_ms)) is not None:
            self._held[key] = lease
        return lease

    def release(self, lease: Lease) -> bool:
        self._held.pop(lease.key, None)
        return super().release(lease)


class CountsInSeconds(Redlock):
    """`odd-ttl`: the keys live for the whole seconds of the lease, and for one at least."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("SET", key, value, "NX", "EX", max(1, ttl_ms // 1000))


class FreesWhatBeginsSo(Redlock):
    """`shared-prefix`: a release of `k1` frees `k10` too."""

    def release_request(self, key: str, value: str) -> bytes:
        return pack("EVAL", FREE_ALL_THAT_BEGINS_SO, 1, key, value)


class RemembersThatItHolds(Redlock):
    """`forget`: what was not released is still held, as far as it knows."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._held: dict[str, Lease] = {}

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        if (old := self._held.get(key)) is not None:
            return Lease(key, old.value, validity_ms=old.validity_ms)
        if (lease := super().acquire(key, ttl_ms)) is not None:
            self._held[key] = lease
        return lease

    def release(self, lease: Lease) -> bool:
        self._held.pop(lease.key, None)
        return super().release(lease)


class HearsWhatWasCancelled(GivesUpWaiting):
    """`cancel`: the replies to a cancelled request stay unread, and are taken for those to the next one."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._unread: list[list[Reply]] = []

    def heard(self, replies: list[Reply]) -> list[Reply]:
        self._unread.append(replies)
        self.give_up_if_due()
        return self._unread.pop(0)


class StaysInLine(GivesUpWaiting, QueueLock):
    """`cancel`: a call that is cancelled leaves its place in the queue, which stays there for ten TTLs."""


class ExpiresInASecondRequest(GivesUpWaiting):
    """`cancel`: the keys have no time to live before the second request, which is not sent any more."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("SET", key, value, "NX")

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        lease = super().try_once(key, ttl_ms)
        if lease is not None:
            self._ask(self.extend_request(key, lease.value, ttl_ms))
        return lease


class FreesWhenItOpens(Redlock):
    """`reopen`: whoever opens it frees what an earlier process may have left behind."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._pool.ask(pack("EVAL", FREE_ALL, 0))
