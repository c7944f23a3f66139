"""Mutants that wait for a lock that is free."""

from __future__ import annotations

import threading
import time
from typing import Final

from workloads.base import Lease
from workloads.blocking_locks import LooksAgainLater, SharesConnections, WakesByMessage, WakesByPush
from workloads.connection import SILENT, ConnectionPool, Reply
from workloads.locks.redlock import Redlock
from workloads.mutants.declared import mutant
from workloads.queue_lock import QueueLock


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
    conditions="blocking, one key",
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
    cause="not woken",
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
    finding="unavailable-while-free",
    cause="nothing set",
    also={"waits-for-free-lock": "not let in"},
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
