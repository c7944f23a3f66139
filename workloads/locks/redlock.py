"""Redlock as the Redis documentation describes it today ("Distributed Locks with Redis").

All nodes are asked in parallel, over warm connections, each with a small timeout. The lock is held if a majority
granted it and the validity, TTL − elapsed − allowance for drift, is positive. After a failure it is released on *all*
nodes and tried again after a random delay. Release and extension compare the unique value in a script (DELEX IFEQ could
do the release, but only Redis 8.4 and later have it). `acquire_mode="sequential"` is the original form, one node after
the other.

Each step on which the algorithm's safety depends is a small separate method, so that a control (or a mutant) is this
class with one method made wrong.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

import hiredis

from workloads.base import Lease, LockSettings, NodeAddress
from workloads.connection import SILENT, Connection, ConnectionPool, Reply, pack

RELEASE_SCRIPT = b"""\
if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end"""

EXTEND_SCRIPT = b"""\
if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("pexpire",KEYS[1],ARGV[2])
else
    return 0
end"""


class _OfThread(threading.local):
    """What one thread uses: connections of its own. Made when the thread first needs it."""

    def __init__(self, nodes: Sequence[NodeAddress], timeout_ms: float, kind: type[Connection]) -> None:
        self.pool = ConnectionPool(nodes, timeout_ms, kind)


class Redlock:
    """The reference. `acquire` takes at most `ROUNDS` rounds, each of at most two node timeouts and one delay; with
    `wait_ms` as many as begin within that time, if they are more.

    Several threads may share one object; each is an owner of its own.
    """

    SHARED_BY_TASKS: ClassVar[bool] = True
    ROUNDS: ClassVar[int] = 3
    WIRE: ClassVar[type[Connection]] = Connection

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        self._settings = settings
        self._mine = _OfThread(nodes, settings.node_timeout_ms, self.WIRE)

    @property
    def _pool(self) -> ConnectionPool:
        return self._mine.pool

    # The steps on which safety depends.

    def quorum(self) -> int:
        """How many nodes must grant the lock."""
        return len(self._pool) // 2 + 1

    def extend_quorum(self) -> int:
        """How many nodes must extend the key: as many as must set it."""
        return self.quorum()

    def grants(self, reply: Reply) -> bool:
        """Whether a node's reply to an acquire request grants the lock. Silence does not."""
        return reply == b"OK"

    def drift_ms(self, ttl_ms: int) -> float:
        """The allowance for clocks that run at different rates, and for Redis's expiry precision of one millisecond."""
        return ttl_ms * 0.01 + 2

    def deadline_ns(self, requested_ns: int, answered_ns: int, ttl_ms: int) -> int:
        """The end of the validity on CLOCK_MONOTONIC. It counts from before the first request, since that is the
        earliest time at which a node can have started the key's TTL."""
        return requested_ns + int((ttl_ms - self.drift_ms(ttl_ms)) * 1e6)

    def is_valid(self, deadline_ns: int, now_ns: int) -> bool:
        """Whether any validity is left."""
        return now_ns < deadline_ns

    def may_extend(self, lease_deadline_ns: int, now_ns: int) -> bool:
        """Whether a lease with this deadline can still be extended; asked before the request and after the replies."""
        return now_ns < lease_deadline_ns

    def unique_value(self) -> str:
        """20 bytes from the kernel's random source, in hex; a new value for every round."""
        return os.urandom(20).hex()

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("SET", key, value, "NX", "PX", ttl_ms)

    def release_request(self, key: str, value: str) -> bytes:
        return pack("EVAL", RELEASE_SCRIPT, 1, key, value)

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", EXTEND_SCRIPT, 1, key, value, ttl_ms)

    def ask_to_release(self, request: bytes, patient: bool) -> list[Reply]:
        """Send the request to all nodes, whatever they replied before."""
        return self._pool.ask(request, patient=patient)

    def free(self, key: str, value: str, patient: bool = True) -> list[Reply]:
        """Delete the key on all nodes where it has this value."""
        return self.ask_to_release(self.release_request(key, value), patient)

    def undo(self, key: str, value: str) -> None:
        """Release a refused attempt on all nodes, also on nodes that did not reply: these may have set the key, or may
        still do so. There is no second wait for them."""
        self.free(key, value, patient=False)

    # The algorithm.

    def tries_per_round(self) -> int:
        """How many keys one round tries at most."""
        return 1

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        """The lease of the first round that succeeded, or None after `ROUNDS` refusals and the time to wait."""
        until_ns = time.monotonic_ns() + int(self._settings.wait_ms * 1e6)
        rounds = 0
        while (lease := self.try_once(key, ttl_ms)) is None:
            rounds += 1
            if rounds >= self.ROUNDS and time.monotonic_ns() >= until_ns:
                return None
            time.sleep(self.delay_ms() / 1e3)
        return lease

    def delay_ms(self) -> float:
        """How long to wait before the next round: at random, so that clients that met do not meet again."""
        return self._settings.rng.uniform(0, self._settings.retry_delay_ms)

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        """One round: ask all nodes for the key, and release it on all of them if too few granted it or it came too
        late."""
        value = self.unique_value()
        requested_ns = time.monotonic_ns()
        said_yes = sum(map(self.grants, self._ask(self.acquire_request(key, value, ttl_ms))))
        lease = self._lease(key, value, ttl_ms, requested_ns)
        if said_yes >= self.quorum() and lease is not None:
            return lease
        self.undo(key, value)
        return None

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        """Extend a lease, in one round. Refused if the lease has expired, or expires during the round ("within the
        validity time"). The caller limits how often a lease is extended."""
        requested_ns = time.monotonic_ns()
        if lease.deadline_ns is None or not self.may_extend(lease.deadline_ns, requested_ns):
            return None
        said_yes = sum(reply == 1 for reply in self._ask(self.extend_request(lease.key, lease.value, ttl_ms)))
        extended = self._lease(lease.key, lease.value, ttl_ms, requested_ns)
        in_time = self.may_extend(lease.deadline_ns, time.monotonic_ns())
        return extended if said_yes >= self.extend_quorum() and in_time else None

    def release(self, lease: Lease) -> bool:
        """Delete the key on all nodes. Raises TimeoutError if too many did not reply to tell whether a majority still
        held the lock."""
        replies = self.free(lease.key, lease.value)
        released = sum(reply == 1 for reply in replies)
        unknown = sum(reply is SILENT or isinstance(reply, hiredis.ReplyError) for reply in replies)
        if released >= self.quorum():
            return True
        if released + unknown < self.quorum():
            return False
        raise TimeoutError(f"{released} of {len(replies)} nodes released the lock, {unknown} did not reply")

    def close(self) -> None:
        """Close this thread's connections; those of another thread end with it."""
        self._pool.close()

    def describe(self) -> dict[str, object]:
        return {
            "acquire_mode": self._settings.acquire_mode,
            "node_timeout_ms": self._settings.node_timeout_ms,
            "retry_delay_ms": self._settings.retry_delay_ms,
            "rounds": self.ROUNDS,
            "quorum": self.quorum(),
            "acquire_limit_ms": self.acquire_limit_ms(),
            "hiredis": hiredis.__version__,
        }

    def acquire_limit_ms(self) -> float:
        """The longest that `acquire` may take: every try asks and then releases, with a delay between rounds. The last
        round may begin at the end of the time to wait."""
        settings = self._settings
        waits = 1 if settings.acquire_mode == "parallel" else len(self._pool)
        round_ms = self.tries_per_round() * (waits + 1) * settings.node_timeout_ms
        rounds_ms = self.ROUNDS * round_ms + (self.ROUNDS - 1) * settings.retry_delay_ms
        return max(rounds_ms, settings.wait_ms + round_ms + settings.retry_delay_ms if settings.wait_ms else 0)

    def _ask(self, request: bytes) -> list[Reply]:
        if self._settings.acquire_mode == "parallel":
            return self._pool.ask(request)
        return [self._pool.ask(request, only=index)[0] for index in range(len(self._pool))]

    def _lease(self, key: str, value: str, ttl_ms: int, requested_ns: int) -> Lease | None:
        """The lease that the replies just received are worth; None if it has already expired."""
        answered_ns = time.monotonic_ns()
        deadline_ns = self.deadline_ns(requested_ns, answered_ns, ttl_ms)
        if not self.is_valid(deadline_ns, answered_ns):
            return None
        validity_ms = (deadline_ns - answered_ns) / 1e6
        return Lease(key, value, validity_ms, deadline_ns=deadline_ns, requested_ns=requested_ns)


LOCK = Redlock
