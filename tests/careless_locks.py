"""Broken locks that show only under a habit of their users (`harness.habits`), one for each."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import redis.asyncio

from tests.correct_locks import GivesUpWaiting, TransactionLock, TwoStepLock, WaitsInLine
from workloads.base import CancelledCallError, Lease, LockSettings, NodeAddress
from workloads.connection import Connection, Reply, pack
from workloads.locks.redlock import RELEASE_SCRIPT, Redlock
from workloads.locks.redlock_renewing import RenewingRedlock

T = TypeVar("T")

FREE_ALL_THAT_BEGINS_SO = b"""\
if redis.call("get",KEYS[1]) ~= ARGV[1] then return 0 end
for _, key in ipairs(redis.call("keys",KEYS[1] .. "*")) do redis.call("del",key) end
return 1"""

FREE_ALL = b"""\
for _, key in ipairs(redis.call("keys","k*")) do redis.call("del",key) end
return 1"""


class RemembersThatItHolds(Redlock):
    """`forget`: what was not released is still held, as far as it knows."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._held: dict[str, Lease] = {}

    def again(self, held: Lease) -> Lease | None:
        """The answer to an acquire of what it holds; None if it asks the nodes."""
        return Lease(held.key, held.value, validity_ms=held.validity_ms)

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        if (held := self._held.get(key)) is not None and (lease := self.again(held)) is not None:
            return lease
        if (lease := super().acquire(key, ttl_ms)) is not None:
            self._held[key] = lease
        return lease

    def release(self, lease: Lease) -> bool:
        self._held.pop(lease.key, None)
        return super().release(lease)


class OwnedByTheProcess(RemembersThatItHolds):
    """`tasks`: what one task of a client holds, its other tasks hold, too."""

    def again(self, held: Lease) -> Lease | None:
        if held.deadline_ns is None or time.monotonic_ns() >= held.deadline_ns:
            return None
        return Lease(held.key, held.value, deadline_ns=held.deadline_ns)


class CountsInSeconds(Redlock):
    """`odd-ttl`: the keys live for the whole seconds of the lease, and for one at least."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("SET", key, value, "NX", "EX", max(1, ttl_ms // 1000))


class FreesWhatBeginsSo(Redlock):
    """`shared-prefix`: a release of `k1` frees `k10` too."""

    def release_request(self, key: str, value: str) -> bytes:
        return pack("EVAL", FREE_ALL_THAT_BEGINS_SO, 1, key, value)


class HearsWhatWasCancelled(GivesUpWaiting):
    """`cancel`: the replies to a cancelled request stay unread, and are taken for those to the next one."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._unread: list[list[Reply]] = []

    def heard(self, replies: list[Reply]) -> list[Reply]:
        self._unread.append(replies)
        self.give_up_if_due()
        return self._unread.pop(0)


class ExpiresInASecondRequest(GivesUpWaiting):
    """`cancel`: the keys have no time to live before the second request, which is not sent any more."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("SET", key, value, "NX")

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        lease = super().try_once(key, ttl_ms)
        if lease is not None:
            self._ask(self.extend_request(key, lease.value, ttl_ms))
        return lease


class KeepsItsPlace(WaitsInLine):
    """`cancel`: a place in the queue is kept for as long as its client asks for anything, so a cancelled acquire bars
    the others while its client runs."""

    def kept_by(self, place: str) -> str:
        return self.name


class FreesAllThatItHolds(Redlock):
    """`two-keys`: a release frees every key of its client."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._held: dict[str, str] = {}

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        if (lease := super().acquire(key, ttl_ms)) is not None:
            self._held[key] = lease.value
        return lease

    def release(self, lease: Lease) -> bool:
        self._held.pop(lease.key, None)
        while self._held:
            self.free(*self._held.popitem())
        return super().release(lease)


class KnowsOneValue(Redlock):
    """`two-keys`: it keeps the value of the key that it acquired last, for all keys."""

    _value = ""

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        if (lease := super().acquire(key, ttl_ms)) is not None:
            self._value = lease.value
        return lease

    def release(self, lease: Lease) -> bool:
        return super().release(replace(lease, value=self._value))


class RenewsOneKey(RenewingRedlock):
    """`two-keys`: its thread renews the key that was acquired last, and says of every key that it is held."""

    def renewed(self, lease: Lease, ttl_ms: int) -> Lease | None:
        newest = list(self._leases)[-1:]
        if lease.value in newest:
            return super().renewed(lease, ttl_ms)
        assert lease.deadline_ns is not None
        return replace(lease, deadline_ns=time.monotonic_ns() + ttl_ms * 1_000_000)


class LetsOneIn(Redlock):
    """`two-keys`: a mutex lets one user of its client in at a time, whatever the key."""

    SHARED_BY_TASKS = False

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._mutexes: dict[str, threading.Lock] = {}

    def mutex(self, key: str) -> threading.Lock:
        return self._mutexes.setdefault("all keys", threading.Lock())

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        self.mutex(key).acquire()
        lease = super().acquire(key, ttl_ms)
        if lease is None:
            self.mutex(key).release()
        return lease

    def release(self, lease: Lease) -> bool:
        self.mutex(lease.key).release()
        return super().release(lease)


class LetsOneInForEachKey(LetsOneIn):
    """As it should be."""

    def mutex(self, key: str) -> threading.Lock:
        return self._mutexes.setdefault(key, threading.Lock())


class ConfirmsWithoutComparing(TwoStepLock):
    """`pause:targets=acquiring`: when a client is stopped between the two requests, it prolongs the key of the next
    holder, and is inside with it."""

    def confirm_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("PEXPIRE", key, ttl_ms)


class WatchesOverAnotherConnection(TransactionLock):
    """`connection=lost`: it connects again between WATCH and EXEC, and sets the key that another client has set
    meanwhile."""

    WIRE: ClassVar[type[Connection]] = Connection


class TakesSilenceForLoss(Redlock):
    """`lost-reply:at=extending`: without an answer to an extension it gives the key up, and never releases it."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._lost: set[str] = set()

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        if (extended := super().extend(lease, ttl_ms)) is None:
            self._lost.add(lease.value)
            raise TimeoutError("the extension was not answered")
        return extended

    def release(self, lease: Lease) -> bool:
        return lease.value not in self._lost and super().release(lease)


class LeavesItsKey:
    """`cancel`: a lock for asyncio that sets its key and its time to live one after the other. A task that is cancelled
    in between leaves a key that never expires."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        host, port, password = nodes[0].host, nodes[0].port, nodes[0].password
        timeout_s = settings.node_timeout_ms / 1e3
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._client = redis.asyncio.Redis(host=host, port=port, password=password, socket_timeout=timeout_s)
        self._limit_s: float | None = None

    def cancel_after(self, limit_ms: float) -> None:
        self._limit_s = limit_ms / 1e3

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        return self._run(self._acquire(key, os.urandom(20).hex(), ttl_ms))

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        return None

    def release(self, lease: Lease) -> bool:
        return self._run(self._release(lease))

    async def _acquire(self, key: str, value: str, ttl_ms: int) -> Lease | None:
        until_ns = time.monotonic_ns() + int(self._settings.wait_ms * 1e6)
        while True:
            asked_ns = time.monotonic_ns()
            if await self._client.set(key, value, nx=True):
                await self._client.pexpire(key, ttl_ms)
                deadline_ns = asked_ns + int(ttl_ms * 0.99e6)
                lease = Lease(key, value, deadline_ns=deadline_ns)
                if time.monotonic_ns() < deadline_ns:
                    return lease
                await self._release(lease)
            if time.monotonic_ns() > until_ns:
                return None
            await asyncio.sleep(self._settings.rng.uniform(0, self._settings.retry_delay_ms) / 1e3)

    async def _release(self, lease: Lease) -> bool:
        return bool(await self._client.eval(RELEASE_SCRIPT.decode(), 1, lease.key, lease.value))

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        limit_s, self._limit_s = self._limit_s, None
        try:
            return self._loop.run_until_complete(asyncio.wait_for(call, limit_s))
        except TimeoutError:
            raise CancelledCallError("cancelled") from None

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()

    def describe(self) -> dict[str, object]:
        return {"wait_ms": self._settings.wait_ms}


class FreesWhenItOpens(Redlock):
    """`reopen`: whoever opens it frees what an earlier process may have left behind."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._pool.ask(pack("EVAL", FREE_ALL, 0))
