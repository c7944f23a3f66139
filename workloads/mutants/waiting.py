"""Mutants that wait for a lock that is free."""

from __future__ import annotations

import threading
import time
from typing import Final

from workloads.base import Lease
from workloads.blocking_locks import LooksAgainLater, SharesConnections, WakesByMessage, WakesByPush
from workloads.connection import SILENT, ConnectionPool, Reply, pack
from workloads.guarded_lock import GuardedLock
from workloads.locks.redlock import Redlock
from workloads.mutants.declared import mutant
from workloads.queue_lock import QueueLock, TurnLock


@mutant(
    "listens too late",
    "who waits listens before it looks, and looks again by itself",
    conditions="blocking",
    finding="waits-for-free-lock",
    cause="not woken",
    source="redisson/redisson#1763",
)
class ListensTooLate(WakesByMessage):
    """The message of a release between the two is lost, and the client waits for one that may never come."""

    def sleep(self, key: str, left_ms: float) -> None:
        self._channel.close()
        if self._channel.subscribe(f"{key}:free"):
            self._channel.wait(left_ms)


@mutant(
    "listens to another channel",
    "who waits listens where a release tells it",
    conditions="blocking",
    finding="waits-for-free-lock",
    cause="not notified",
)
class ListensToAnotherChannel(WakesByMessage):
    """No message reaches a client that waits."""

    def sleep(self, key: str, left_ms: float) -> None:
        if self._channel.subscribe(f"{key}:freed"):
            self._channel.wait(left_ms)


@mutant(
    "subscribes once",
    "who has lost a subscription subscribes again",
    conditions="blocking, one key",
    finding="sleeps-unsubscribed",
    cause="subscription lost",
)
class SubscribesOnce(LooksAgainLater):
    """When the node has restarted, no message reaches the client any more, and it sleeps for a second each time."""

    def hears(self, key: str) -> bool:
        return self._channel.name == f"{key}:free" or super().hears(key)


@mutant(
    "sleeps on",
    "a message of a release wakes the client up",
    conditions="often free",
    finding="waits-for-free-lock",
    cause="not woken",
)
class SleepsOn(LooksAgainLater):
    """The message comes, and the client sleeps for the rest of its second."""

    def sleep(self, key: str, left_ms: float) -> None:
        until_ns = time.monotonic_ns() + int(self.sleeps_ms(left_ms) * 1e6)
        super().sleep(key, left_ms)
        time.sleep(max(until_ns - time.monotonic_ns(), 0) / 1e9)


@mutant(
    "gives up when overtaken",
    "a waiter that is woken too late waits on until its time is over",
    conditions="blocking, one key",
    finding="gave-up-early",
    source="spring-projects/spring-integration#3700",
)
class GivesUpWhenOvertaken(WakesByMessage):
    """Of all that a release wakes up, one is let in, and the others are refused after a moment."""

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        until_ns = time.monotonic_ns() + int(self._settings.wait_ms * 1e6)
        self.prepare(key)
        lease, was_woken = self.try_once(key, ttl_ms), False
        while lease is None and not was_woken and (began_ns := time.monotonic_ns()) < until_ns:
            left_ms = (until_ns - began_ns) / 1e6
            self.sleep(key, left_ms)
            was_woken = time.monotonic_ns() - began_ns < self.sleeps_ms(left_ms) * 1e6
            lease = self.try_once(key, ttl_ms)
        return lease


@mutant(
    "waits over the connection of the others",
    "a request that blocks has a connection of its own",
    conditions="sharing",
    finding="sent-late",
    cause="connections taken",
)
class WaitsOverTheConnectionOfTheOthers(SharesConnections):
    """A client that is inside cannot give the lock back while another thread of its process waits."""

    def bell(self) -> ConnectionPool:
        return self._pool


@mutant(
    "sleeps for seconds, not milliseconds",
    "BLPOP counts in seconds",
    conditions="blocking",
    finding="waits-for-free-lock",
    cause="blocked too long",
    source="coleifer/walrus#60",
)
class SleepsForSeconds(WakesByPush):
    """If a wake-up is lost with a connection, or with the client that had it, the others sleep for minutes."""

    def blocks_s(self, left_ms: float) -> float:
        return self.sleeps_ms(left_ms)


@mutant(
    "stays in the queue",
    "who gives up leaves the queue",
    conditions="blocking",
    finding="waits-for-free-lock",
    cause="entry of a refused call",
    source="redisson/redisson#1104",
)
class StaysInTheQueue(QueueLock):
    """The others wait for a client that has gone."""

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        until_ns = time.monotonic_ns() + int(ttl_ms * 1e6)
        self._place.value = super(QueueLock, self).unique_value()
        while (lease := self.try_once(key, ttl_ms)) is None and time.monotonic_ns() < until_ns:
            time.sleep(self.delay_ms() / 1e3)
        return lease


_MUTEXES: Final[dict[int, threading.Lock]] = {}


@mutant(
    "keeps its own mutex",
    "what a call takes within its process, it gives back whatever happens",
    conditions="busy",
    finding="call-hung",
)
class KeepsItsOwnMutex(Redlock):
    """An error of a release that is not answered by every node leaves a mutex of the process locked: the next release
    waits for it forever."""

    def free(self, key: str, value: str, patient: bool = True) -> list[Reply]:
        mutex = _MUTEXES.setdefault(id(self), threading.Lock())
        mutex.acquire()
        replies = super().free(key, value, patient)
        if patient and SILENT in replies:
            raise TimeoutError("a node did not answer the release")
        mutex.release()
        return replies


_PUSH_AND_DELETE: Final = b"""\
if redis.call("get",KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("rpush",KEYS[2],"free")
redis.call("del",KEYS[2])
return redis.call("del",KEYS[1])"""


@mutant(
    "pushes and deletes",
    "a token stays on the list until a client takes it",
    conditions="often free",
    finding="waits-for-free-lock",
    cause="not notified",
)
class PushesAndDeletes(SharesConnections):
    """A node serves clients that wait for a list when the request is over, and then the list is gone."""

    def release_request(self, key: str, value: str) -> bytes:
        return pack("EVAL", _PUSH_AND_DELETE, 2, key, f"{key}:wake", value)


_LOOK_IN_FRONT: Final = b"""\
if not redis.call("lpos",KEYS[1],ARGV[1]) then
    redis.call("lpush",KEYS[1],ARGV[1])
end
redis.call("pexpire",KEYS[1],ARGV[2])
return redis.call("lindex",KEYS[1],0)"""


@mutant(
    "queues in front",
    "who comes last is served last",
    conditions="queue",
    finding="starved-client",
)
class QueuesInFront(TurnLock):
    """As long as two clients ask again and again, the others wait."""

    def look_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", _LOOK_IN_FRONT, 1, f"{key}:queue", value, 10 * ttl_ms)


_LOOK_ONLY: Final = b"""\
redis.call("pexpire",KEYS[1],ARGV[1])
return redis.call("lindex",KEYS[1],0)"""


@mutant(
    "enters only once",
    "who has lost its place in the queue enters again",
    conditions="turns",
    finding="waits-without-entry",
    cause="entry removed",
    source="redisson/redisson#3004",
)
class EntersOnlyOnce(TurnLock):
    """A client that the others took for gone waits for a turn that does not come."""

    def look_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        entered, vars(self)["entered"] = vars(self).get("entered"), value
        if entered != value:
            return super().look_request(key, value, ttl_ms)
        return pack("EVAL", _LOOK_ONLY, 1, f"{key}:queue", 10 * ttl_ms)


@mutant(
    "keeps its mutex when it fails",
    "what a call takes within its process, it gives back whatever happens",
    conditions="to the end",
    finding="acquire-never-ended",
)
class KeepsItsMutexWhenItFails(Redlock):
    """An error of an attempt leaves a mutex of the process locked: the next acquire waits for it forever."""

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        mutex = _MUTEXES.setdefault(id(self), threading.Lock())
        mutex.acquire()
        lease = super().try_once(key, ttl_ms)
        if self._pool.owing:
            raise TimeoutError("a node did not answer the acquire")
        mutex.release()
        return lease


@mutant(
    "guards itself for good",
    "a mutex of the lock's own has a time to live",
    conditions="to the end",
    finding="no-recovery",
    cause="left mutex",
    source="dv/redis-semaphore#23",
)
class GuardsItselfForGood(GuardedLock):
    """A client that is killed in its call, or whose DEL is lost, leaves the mutex, and no client gets in any more."""

    def mutex_request(self, key: str, ttl_ms: int) -> bytes:
        return pack("SET", f"{key}:mutex", "taken", "NX")
