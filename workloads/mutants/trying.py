"""Mutants that try again wrongly, or need more than they should."""

from __future__ import annotations

import time

from workloads.base import Lease
from workloads.connection import pack
from workloads.locks.redlock import Redlock
from workloads.mutants.declared import mutant

SET_OR_RECOGNISE = b"""\
if redis.call("get",KEYS[1]) == ARGV[1] then return 1 end
return redis.call("set",KEYS[1],ARGV[1],"nx","px",ARGV[2])"""


@mutant(
    "waits for every node",
    "a majority is enough",
    conditions="busy",
    finding="unavailable-while-free",
    cause="majority refused",
)
class WaitsForEveryNode(Redlock):
    """While one node is down or hung, no client gets in."""

    def quorum(self) -> int:
        return len(self._pool)


@mutant(
    "tries for ever",
    "an acquire gives up when its time is over",
    conditions="busy",
    finding="acquire-overrun",
    source="mike-marcacci/node-redlock#313",
)
class TriesForEver(Redlock):
    """Its user waits for as long as the lock is held by others, or a majority cannot be reached."""

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        while (lease := super().acquire(key, ttl_ms)) is None:
            time.sleep(self._settings.retry_delay_ms / 1e3)
        return lease


@mutant(
    "backs off without end",
    "the delay before the next attempt is random, and bounded",
    conditions="busy",
    finding="acquire-overrun",
)
class BacksOffWithoutEnd(Redlock):
    """Who was refused a few times in a row waits for many leases, although the lock is free in between."""

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        refused = vars(self).get("refused", 0)
        time.sleep(min(60, (2**refused - 1) * 0.05))
        lease = super().acquire(key, ttl_ms)
        vars(self)["refused"] = 0 if lease is not None else refused + 1
        return lease


@mutant(
    "keeps the keys of its tries",
    "a key of an earlier try, whose time is running, is no vote for this one",
    conditions="busy",
    finding="lease-outlasts-keys",
    also={"lease-without-majority": "expired", "overlap": "expired"},
)
class KeepsTheKeysOfItsTries(Redlock):
    """It collects nodes until they are a majority, and counts the lease from the last try."""

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        value, requested_ns = vars(self).setdefault("kept", self.unique_value()), time.monotonic_ns()
        replies = self._ask(pack("EVAL", SET_OR_RECOGNISE, 1, key, value, ttl_ms))
        said_yes = sum(reply in (b"OK", 1) for reply in replies)
        lease = self._lease(key, value, ttl_ms, requested_ns)
        if said_yes < self.quorum() or lease is None:
            return None
        del vars(self)["kept"]
        return lease
