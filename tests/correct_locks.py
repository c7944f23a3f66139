"""Correct locks that do things differently than the reference. No finding may ever blame one of them.

`CORRECT` says with which options each is played. Two threads that share one lock object, a thread that renews, and
other workloads are the shipped locks with other options.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import ClassVar, Final

from workloads.base import CancelledCallError, Lease, LockSettings, NodeAddress
from workloads.blocking_locks import WakesByMessage
from workloads.connection import Connection, Reply, pack
from workloads.locks.redlock import Redlock
from workloads.locks.set_nx_px import SetNxPx

COMPARE_AND_SET = b"""\
if redis.call("get",KEYS[1]) == ARGV[1] then
    redis.call("set",KEYS[1],ARGV[1],"px",ARGV[2])
    return 1
else
    return 0
end"""


class ExtendsBySetting(Redlock):
    """Sets its own key anew where it is still its own."""

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", COMPARE_AND_SET, 1, key, value, ttl_ms)


class SlowButRight(Redlock):
    """Asks one node after the other and thinks in between, with one round a call: an acquire takes a good part of the
    TTL, and so does a release. What is left is what it says."""

    ROUNDS = 1
    THINKS_MS: Final = 20

    def _ask(self, request: bytes) -> list[Reply]:
        replies = []
        for index in range(len(self._pool)):
            time.sleep(self.THINKS_MS / 1e3)
            replies += self._pool.ask(request, only=index)
        return replies

    def ask_to_release(self, request: bytes, patient: bool) -> list[Reply]:
        time.sleep(self.THINKS_MS / 1e3)
        return super().ask_to_release(request, patient)

    def acquire_limit_ms(self) -> float:
        nodes = len(self._pool)
        round_ms = nodes * (self.THINKS_MS + self._settings.node_timeout_ms)
        round_ms += self.THINKS_MS + self._settings.node_timeout_ms + self._settings.retry_delay_ms
        return max(round_ms, self._settings.wait_ms + round_ms if self._settings.wait_ms else 0)


class GivesUpWaiting(Redlock):
    """A call that its user cancels ends at once: before a request, while the replies are awaited, or between two
    rounds. It leaves its keys to their TTL."""

    SHARED_BY_TASKS = False

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._until_ns: int | None = None

    def cancel_after(self, limit_ms: float) -> None:
        self._until_ns = time.monotonic_ns() + int(limit_ms * 1e6)

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        try:
            return super().acquire(key, ttl_ms)
        finally:
            self._until_ns = None

    def release(self, lease: Lease) -> bool:
        try:
            return super().release(lease)
        finally:
            self._until_ns = None

    def heard(self, replies: list[Reply]) -> list[Reply]:
        """What is taken for the answer of the nodes to the last request."""
        self.give_up_if_due()
        return replies

    def _ask(self, request: bytes) -> list[Reply]:
        return self._until_cancelled(lambda: super(GivesUpWaiting, self)._ask(request))

    def ask_to_release(self, request: bytes, patient: bool) -> list[Reply]:
        return self._until_cancelled(lambda: super(GivesUpWaiting, self).ask_to_release(request, patient))

    def _until_cancelled(self, ask: Callable[[], list[Reply]]) -> list[Reply]:
        self.give_up_if_due()
        usual_ms = self._pool.timeout_ms
        self._pool.timeout_ms = min(usual_ms, self.left_ms())
        try:
            return self.heard(ask())
        finally:
            self._pool.timeout_ms = usual_ms

    def left_ms(self) -> float:
        """Until the call is cancelled."""
        return inf if self._until_ns is None else (self._until_ns - time.monotonic_ns()) / 1e6

    def give_up_if_due(self) -> None:
        if self.left_ms() <= 0:
            raise CancelledCallError("the user gave up")


class GivesUpTidily(GivesUpWaiting):
    """The same, but it takes back what it has asked for, and waits for no answer."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._asked = ""

    def unique_value(self) -> str:
        self._asked = super().unique_value()
        return self._asked

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        try:
            return super().acquire(key, ttl_ms)
        except CancelledCallError:
            self._pool.timeout_ms, usual_ms = 0, self._pool.timeout_ms
            self.undo(key, self._asked)
            self._pool.timeout_ms = usual_ms
            raise


class GivesUpSleeping(GivesUpWaiting, WakesByMessage):
    """A call that sleeps until the lock is free can be cancelled too."""

    def sleep(self, key: str, left_ms: float) -> None:
        self.give_up_if_due()
        super().sleep(key, min(left_ms, self.left_ms()))
        self.give_up_if_due()


WAIT_IN_LINE = b"""\
local now = redis.call("time")
local at = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call("zadd",KEYS[3],at,ARGV[3])
if not redis.call("lpos",KEYS[2],ARGV[1]) then redis.call("rpush",KEYS[2],ARGV[1]) end
local first = redis.call("lindex",KEYS[2],0)
local seen = redis.call("zscore",KEYS[3],string.sub(first,1,#ARGV[3]))
if not seen or tonumber(seen) < at - tonumber(ARGV[2]) then
    redis.call("lpop",KEYS[2])
    return false
end
if first ~= ARGV[1] then return false end
if not redis.call("set",KEYS[1],ARGV[1],"nx","px",ARGV[2]) then return false end
redis.call("lpop",KEYS[2])
return redis.status_reply("OK")"""


class TwoStepLock(SetNxPx):
    """Asks twice, on `nodes[0]`: for its key, and then for a lease from there on. It compares the value both times."""

    def tries_per_round(self) -> int:
        """Three requests take as long as two tries of a request and its release."""
        return 2

    def confirm_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        """Prolongs the key that the first request set, if it still has its value."""
        return self.extend_request(key, value, ttl_ms)

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        value = self.unique_value()
        is_set = self.grants(self._ask(self.acquire_request(key, value, ttl_ms))[0])
        requested_ns = time.monotonic_ns()
        if is_set and self._ask(self.confirm_request(key, value, ttl_ms)) == [1]:
            lease = self._lease(key, value, ttl_ms, requested_ns)
            if lease is not None:
                return lease
        self.undo(key, value)
        return None


IN_TRANSACTION: Final = frozenset({b"GET", b"MULTI", b"SET", b"EXEC", b"UNWATCH"})


class WatchingConnection(Connection):
    """Is not made again between WATCH and EXEC: then the transaction has failed."""

    def send(self, request: bytes) -> None:
        self._is_bound = request.split(b"\r\n", 3)[2] in IN_TRANSACTION
        super().send(request)

    def dial(self) -> bool:
        return not self._is_bound and super().dial()

    _is_bound = False


class TransactionLock(SetNxPx):
    """Looks and sets within a transaction on `nodes[0]`: WATCH, GET, MULTI, SET and EXEC, one request after the other.
    A node watches a key for a connection, so one that goes on over a new connection would overwrite another's key."""

    WIRE: ClassVar[type[Connection]] = WatchingConnection

    def tries_per_round(self) -> int:
        """Six requests take as long as three tries of a request and its release."""
        return 3

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        value, requested_ns = self.unique_value(), time.monotonic_ns()
        if self._said(pack("WATCH", key)) != b"OK" or self._said(pack("GET", key)) is not None:
            self._said(pack("UNWATCH"))
            return None
        queued = self._said(pack("MULTI")) == b"OK" and self._said(pack("SET", key, value, "PX", ttl_ms)) == b"QUEUED"
        is_set = self._said(pack("EXEC")) == [b"OK"]
        lease = self._lease(key, value, ttl_ms, requested_ns)
        if queued and is_set and lease is not None:
            return lease
        self.undo(key, value)
        return None

    def _said(self, request: bytes) -> Reply:
        return self._ask(request)[0]


class WaitsInLine(GivesUpWaiting, SetNxPx):
    """Clients wait in a queue on one node. A place is lost when its call has not asked again for a TTL. A call that is
    refused gives its place back; one that its user cancels leaves it to that."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self.name = super().unique_value()[:20]
        self._place = ""

    def unique_value(self) -> str:
        return self._place

    def kept_by(self, place: str) -> str:
        """What keeps a place: all that begins so."""
        return place

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        names = (key, f"{key}:queue", f"{key}:seen")
        return pack("EVAL", WAIT_IN_LINE, 3, *names, value, ttl_ms, self.kept_by(value))

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        self._place = self.name + super().unique_value()[:20]
        if (lease := super().acquire(key, ttl_ms)) is None:
            self.leave(key)
        return lease

    def leave(self, key: str) -> None:
        self._pool.ask(pack("LREM", f"{key}:queue", 0, self._place))


class GivesUpItsPlace(WaitsInLine):
    """The same, but a cancelled call takes its place back, and waits for no answer."""

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        try:
            return super().acquire(key, ttl_ms)
        except CancelledCallError:
            self._pool.timeout_ms, usual_ms = 0, self._pool.timeout_ms
            self.leave(key)
            self.undo(key, self._place)
            self._pool.timeout_ms = usual_ms
            raise


class TellsNoTime(Redlock):
    """Says yes or no, and nothing else. It knows its deadlines all the same."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._known: dict[str, Lease] = {}

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        return self._plain(super().acquire(key, ttl_ms))

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        return self._plain(super().extend(self._known[lease.value], ttl_ms))

    def release(self, lease: Lease) -> bool:
        self._known.pop(lease.value, None)
        return super().release(lease)

    def _plain(self, lease: Lease | None) -> Lease | None:
        if lease is None:
            return None
        self._known[lease.value] = lease
        return replace(lease, validity_ms=None, deadline_ns=None, requested_ns=None)


KEEP_FOR_A_WHILE = b"""\
if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("pexpire",KEYS[1],ARGV[2])
else
    return 0
end"""

SET_OR_TAKE_BACK = b"""\
if redis.call("get",KEYS[1]) == ARGV[1] then
    redis.call("pexpire",KEYS[1],ARGV[2])
    return redis.status_reply("OK")
else
    return redis.call("set",KEYS[1],ARGV[1],"nx","px",ARGV[2])
end"""


class ComesBack(Redlock):
    """A release leaves the keys for a moment. If the same client comes back meanwhile, it gets the lock by the value
    that it had, a few times in a row, so that others get their turn. Only a release that every node has answered is
    followed by the same value: no request with it is still on its way."""

    SHARED_BY_TASKS = False
    LINGERS_MS: Final = 100
    IN_A_ROW: Final = 3

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._kept: str | None = None
        self._times = 0

    def unique_value(self) -> str:
        value, self._kept = self._kept, None
        if value is None:
            self._times = 0
        return value or super().unique_value()

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", SET_OR_TAKE_BACK, 1, key, value, ttl_ms)

    def release(self, lease: Lease) -> bool:
        self._times += 1
        if self._times >= self.IN_A_ROW:
            return super().release(lease)
        replies = self.ask_to_release(pack("EVAL", KEEP_FOR_A_WHILE, 1, lease.key, lease.value, self.LINGERS_MS), True)
        if all(reply in (0, 1) for reply in replies):
            self._kept = lease.value
        return self.is_released(replies)

    def is_released(self, replies: Sequence[Reply]) -> bool:
        """Whether a majority released its key. Raises TimeoutError if too few answered to tell."""
        done, answered = (sum(reply in some for reply in replies) for some in ((1,), (0, 1)))
        if done < self.quorum() <= done + len(replies) - answered:
            raise TimeoutError(f"{answered} of {len(replies)} nodes answered the release")
        return done >= self.quorum()


SET_FIELD_OR_TAKE_BACK = b"""\
if redis.call("exists",KEYS[1]) == 0 or redis.call("hexists",KEYS[1],ARGV[1]) == 1 then
    redis.call("hset",KEYS[1],ARGV[1],1)
    redis.call("pexpire",KEYS[1],ARGV[2])
    return redis.status_reply("OK")
end
return false"""

WITH_THE_FIELD = b"""\
if redis.call("hexists",KEYS[1],ARGV[1]) == 1 then
    return redis.call(unpack(ARGV,2))
else
    return 0
end"""


class ComesBackByItsName(ComesBack):
    """The same, and it keeps a hash whose field is the client's name, for all of its sections."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._name = super().unique_value()

    def unique_value(self) -> str:
        return self._name

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        if self._times >= self.IN_A_ROW:
            self._times = 0
        return pack("EVAL", SET_FIELD_OR_TAKE_BACK, 1, key, value, ttl_ms)

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", WITH_THE_FIELD, 1, key, value, "pexpire", key, ttl_ms)

    def release_request(self, key: str, value: str) -> bytes:
        return pack("EVAL", WITH_THE_FIELD, 1, key, value, "del", key)

    def release(self, lease: Lease) -> bool:
        self._times += 1
        request = self.release_request(lease.key, lease.value)
        if self._times < self.IN_A_ROW:
            request = self.extend_request(lease.key, lease.value, self.LINGERS_MS)
        return self.is_released(self.ask_to_release(request, True))


SET_IF_OVER = b"""\
local held = redis.call("get",KEYS[1])
if held and tonumber(string.match(held,":(%d+)$")) >= tonumber(ARGV[2]) then return false end
return redis.call("set",KEYS[1],ARGV[1])"""

IF_BEGINS_SO = b"""\
local held = redis.call("get",KEYS[1])
if held and string.sub(held,1,#ARGV[1]) == ARGV[1] then
    if ARGV[2] == "" then return redis.call("del",KEYS[1]) end
    redis.call("set",KEYS[1],ARGV[2])
    return 1
end
return 0"""


class KeepsItsExpiry(Redlock):
    """The keys have no time to live: their value says until when they hold, and whoever comes later sets its own."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", SET_IF_OVER, 1, key, self._until(value, ttl_ms), round(time.time() * 1e3))

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", IF_BEGINS_SO, 1, key, value, self._until(value, ttl_ms))

    def release_request(self, key: str, value: str) -> bytes:
        return pack("EVAL", IF_BEGINS_SO, 1, key, value, "")

    def _until(self, value: str, ttl_ms: int) -> str:
        return f"{value}:{round(time.time() * 1e3) + ttl_ms + 1}"


CORRECT: Final[dict[str, tuple[str, ...]]] = {
    "reference": ("--lock", "redlock"),
    "redlock-ng": ("--lock", "redlock-ng"),
    "extends by compare-and-SET": ("--lock", "tests.correct_locks:ExtendsBySetting"),
    "two threads": ("--lock", "redlock", "--tasks", "2", "--clients", "2"),
    "two keys": ("--lock", "redlock", "--two-keys", "0.5"),
    "a watchdog": ("--lock", "redlock-renewing", "--renewal", "100ms"),
    "slow but right": ("--lock", "tests.correct_locks:SlowButRight"),
    "tells no time": ("--lock", "tests.correct_locks:TellsNoTime"),
    "gives up": ("--lock", "tests.correct_locks:GivesUpWaiting", "--cancel", "0.3"),
    "gives up tidily": ("--lock", "tests.correct_locks:GivesUpTidily", "--cancel", "0.3"),
    "gives up sleeping": ("--lock", "tests.correct_locks:GivesUpSleeping", "--cancel", "0.3", "--wait", "5s"),
    "waits in line": ("--lock", "tests.correct_locks:WaitsInLine", "--cancel", "0.3", "--wait", "5s", "--nodes", "1"),
    "gives up its place": (
        "--lock",
        "tests.correct_locks:GivesUpItsPlace",
        "--cancel",
        "0.3",
        "--wait",
        "5s",
        "--nodes",
        "1",
    ),
    "in two steps": ("--lock", "tests.correct_locks:TwoStepLock"),
    "in a transaction": ("--lock", "tests.correct_locks:TransactionLock"),
    "comes back": ("--lock", "tests.correct_locks:ComesBack"),
    "comes back by its name": ("--lock", "tests.correct_locks:ComesBackByItsName"),
    "keeps its expiry": ("--lock", "tests.correct_locks:KeepsItsExpiry"),
    "wakes by a push": ("--lock", "workloads.blocking_locks:WakesByPush", "--wait", "5s"),
    "wakes by a message": ("--lock", "workloads.blocking_locks:WakesByMessage", "--wait", "5s"),
    "a register": ("--lock", "redlock", "--workload", "register", "--fencing", "unique"),
    "nothing but the lock": ("--lock", "redlock", "--workload", "acquire-release"),
    "a semaphore": ("--lock", "semaphore", "--workload", "semaphore", "--permits", "2"),
    "a semaphore that counts": ("--lock", "semaphore-counted", "--workload", "semaphore", "--permits", "2"),
    "readers and writers": ("--lock", "rw-lock", "--workload", "rw-lock"),
    "a leader": ("--lock", "redlock", "--workload", "leader"),
}
