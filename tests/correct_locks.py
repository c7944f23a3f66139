"""Correct locks that do things differently than the reference. No finding may ever blame one of them.

`CORRECT` says with which options each is played. Two threads that share one lock object, a thread that renews, and
other workloads are the shipped locks with other options.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fencepost.history import Round
from workloads.base import Lease, LockSettings, NodeAddress
from workloads.connection import Reply, pack
from workloads.locks.redlock import Redlock

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


class ShowsNothing(TellsNoTime):
    """Nor does it say what it sets, and what the nodes replied."""

    def _plain(self, lease: Lease | None) -> Lease | None:
        plain = super()._plain(lease)
        return None if plain is None else replace(plain, node_values=("",))

    def take_rounds(self) -> list[Round]:
        super().take_rounds()
        return []


CORRECT: Final[dict[str, tuple[str, ...]]] = {
    "reference": ("--lock", "redlock"),
    "redlock-ng": ("--lock", "redlock-ng"),
    "extends by compare-and-SET": ("--lock", "tests.correct_locks:ExtendsBySetting"),
    "two threads": ("--lock", "redlock", "--tasks", "2", "--clients", "2"),
    "a watchdog": ("--lock", "redlock-renewing", "--renewal", "100ms"),
    "slow but right": ("--lock", "tests.correct_locks:SlowButRight"),
    "tells no time": ("--lock", "tests.correct_locks:TellsNoTime"),
    "shows nothing": ("--lock", "tests.correct_locks:ShowsNothing"),
    "a register": ("--lock", "redlock", "--workload", "register", "--fencing", "unique"),
    "nothing but the lock": ("--lock", "redlock", "--workload", "acquire-release"),
    "a semaphore": ("--lock", "semaphore", "--workload", "semaphore", "--permits", "2"),
    "a semaphore that counts": ("--lock", "semaphore-counted", "--workload", "semaphore", "--permits", "2"),
}
