"""Mutants that ask the nodes for the lock wrongly."""

from __future__ import annotations

import time

from hiredis import ReplyError

from workloads.base import Lease
from workloads.connection import Reply, pack
from workloads.locks.redlock import Redlock
from workloads.locks.redlock_reentrant import ReentrantRedlock
from workloads.mutants.declared import mutant

SET_OR_PROLONG = b"""\
local set = redis.call("set",KEYS[1],ARGV[1],"nx","px",ARGV[2])
if not set then redis.call("pexpire",KEYS[1],ARGV[2]) end
return set"""


@mutant(
    "overwrites after an error",
    "SET only if the key does not exist (NX), even in a second attempt",
    conditions="busy",
    finding="overlap",
    cause="overwritten",
)
class OverwritesAfterAnError(Redlock):
    """While some node has not replied to the last request, it sets the key regardless of its owner."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        if self._pool.owing:
            return pack("SET", key, value, "PX", ttl_ms)
        return super().acquire_request(key, value, ttl_ms)


@mutant(
    "looks before it sets",
    "the check that the key is free and the SET are one command",
    conditions="busy",
    finding="overlap",
    cause="looked first",
)
class LooksBeforeItSets(Redlock):
    """Two clients see that the key is free on a majority, and both set it."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        free = sum(reply == 0 for reply in self._pool.ask(pack("EXISTS", key)))
        if free >= self.quorum():
            return pack("SET", key, value, "PX", ttl_ms)
        return super().acquire_request(key, value, ttl_ms)


@mutant(
    "sets and expires in two steps",
    "the key and its TTL are set in one command",
    conditions="busy",
    finding="orphan-outlasts-ttl",
    cause="no expiry",
    source="laravel/horizon#1738",
)
class SetsAndExpiresInTwoSteps(Redlock):
    """A client that is killed or cut off between the two steps leaves a key that never expires."""

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        value, requested_ns = self.unique_value(), time.monotonic_ns()
        if sum(map(self.grants, self._ask(pack("SET", key, value, "NX")))) >= self.quorum():
            self._ask(self.extend_request(key, value, ttl_ms))
            lease = self._lease(key, value, ttl_ms, requested_ns)
            if lease is not None:
                return lease
        self.undo(key, value)
        return None


@mutant(
    "an error is a yes",
    "only a reply that says so grants the key",
    conditions="busy",
    finding="lease-without-majority",
    cause="granted on errors",
    also={"overlap": "granted on errors"},
)
class AnErrorIsAYes(Redlock):
    """Nodes that are out of memory, or that miss their replicas, let everybody in."""

    def grants(self, reply: Reply) -> bool:
        return super().grants(reply) or isinstance(reply, ReplyError)


@mutant(
    "losers prolong",
    "a request that is refused changes nothing",
    conditions="busy",
    finding="orphan-outlasts-ttl",
    cause="renewed unheld",
    source="oaeproject/Hilary#793",
)
class LosersProlong(Redlock):
    """As long as others try, the key of a client that died never expires."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", SET_OR_PROLONG, 1, key, value, ttl_ms)


@mutant(
    "seconds for milliseconds",
    "PX takes milliseconds",
    conditions="busy",
    finding="overlap",
    cause="short TTL",
    source="kent8192/reinhardt-web#736",
)
class SecondsForMilliseconds(Redlock):
    """The keys expire a thousand times too early."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return super().acquire_request(key, value, max(1, ttl_ms // 1000))


@mutant(
    "milliseconds for seconds",
    "EX takes seconds",
    conditions="alone",
    finding="keys-outlast-lease",
)
class ExpiresInSeconds(Redlock):
    """The keys that a client leaves behind when it dies or is cut off block all others for a thousand leases."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("SET", key, value, "NX", "EX", ttl_ms)


@mutant(
    "sets for less than it tells",
    "the keys live as long as the lease",
    conditions="busy",
    finding="lease-outlasts-keys",
    cause="short TTL",
)
class SetsForLess(Redlock):
    """A holder that uses its whole lease shares the end of it with the next one."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return super().acquire_request(key, value, ttl_ms * 4 // 5)


@mutant(
    "trusts its memory",
    "a client may acquire again what it holds while its lease lasts",
    conditions="nested",
    finding="nested-acquire-without-majority",
)
class TrustsItsMemory(ReentrantRedlock):
    """It says yes when its keys have expired."""

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        held = self._counts.held
        lease, count = held.get(key, (None, 0))
        lease = lease or super(ReentrantRedlock, self).acquire(key, ttl_ms)
        if lease is not None:
            held[key] = lease, count + 1
        return lease


TAKE_WHAT_ENDS_SOON = b"""\
if redis.call("pttl",KEYS[1]) > ARGV[2] / 2 then return false end
return redis.call("set",KEYS[1],ARGV[1],"px",ARGV[2])"""


@mutant(
    "takes what ends soon",
    "a key is taken when it is gone, and not before",
    conditions="briefly",
    finding="overwritten-while-held",
)
class TakesWhatEndsSoon(Redlock):
    """It takes a holder that uses the second half of its lease for one that is gone."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", TAKE_WHAT_ENDS_SOON, 1, key, value, ttl_ms)


@mutant(
    "prolongs what it looks at",
    "a look at the key changes nothing",
    conditions="briefly",
    finding="prolonged-another-clients-key",
    cause="prolonged",
    source="rogermadjos/node-mutex#2",
)
class ProlongsWhatItLooksAt(Redlock):
    """It reads who has the lock by GETEX, which is meant for a cache: the key of a client that died lives on as long
    as others look at it."""

    def undo(self, key: str, value: str) -> None:
        self._pool.ask(pack("GETEX", key, "PX", self._settings.ttl_ms))
        super().undo(key, value)


@mutant(
    "sets it in any case",
    "SET only if the key does not exist (NX)",
    conditions="briefly",
    finding="stale-write-accepted",
    also={"overlap": "overwritten"},
    source="tal-tech/fend#9",
)
class SetsItInAnyCase(Redlock):
    """The holder works on, and writes after the client that has taken the lock from it."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("SET", key, value, "PX", ttl_ms)
