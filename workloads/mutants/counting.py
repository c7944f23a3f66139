"""Mutants that count the nodes' replies wrongly."""

from __future__ import annotations

from typing import ClassVar

from workloads.base import Lease
from workloads.connection import SILENT, Connection, Reply, pack
from workloads.count_lock import CountLock
from workloads.locks.redlock import Redlock
from workloads.locks.semaphore_counted import ADMIT_SCRIPT, CountedSemaphore
from workloads.mutants.declared import mutant


@mutant("half is enough", "N/2 + 1 nodes must grant it", conditions="busy", finding="overlap", cause="too few nodes")
class HalfIsEnough(Redlock):
    """Of five nodes, two can grant the lock to one client and two others to another client."""

    def quorum(self) -> int:
        return len(self._pool) // 2


@mutant(
    "a majority of those that reply",
    "a majority of all nodes must grant it, whether they reply or not",
    conditions="busy",
    finding="overlap",
    cause="too few nodes",
    source="SPSCommerce/redlock-py#6",
)
class MajorityOfThoseThatReply(Redlock):
    """On either side of a partition, a client needs only the nodes that it can reach."""

    def quorum(self) -> int:
        return self._pool.answered // 2 + 1


@mutant(
    "silence is a yes",
    "a node that did not reply in time has not granted the lock",
    conditions="busy",
    finding="overlap",
    cause="too few nodes",
)
class SilenceIsYes(Redlock):
    """A client that is cut off from a majority acquires the lock."""

    def grants(self, reply: Reply) -> bool:
        return reply == b"OK" or reply is SILENT


@mutant(
    "the first node decides",
    "a majority must have answered before the client is told yes",
    conditions="busy",
    finding="grant-before-majority",
)
class TheFirstNodeDecides(Redlock):
    """The other nodes are asked as well, and may refuse when the client has been told yes."""

    def _ask(self, request: bytes) -> list[Reply]:
        pool, patience = self._pool, self._pool.timeout_ms
        first = pool.ask(request, only=0)
        pool.timeout_ms = 0
        for index in range(1, len(pool)):
            pool.ask(request, only=index)
        pool.timeout_ms = patience
        return first * len(pool)


class _Forgetful(Connection):
    """The reply to an abandoned request is taken for the reply to the next request, and so on forever."""

    def owe(self) -> None:
        pass


@mutant(
    "a late reply counts",
    "a reply belongs to the request that it answers",
    conditions="busy",
    finding="lease-without-majority",
    cause="another reply",
    also={"overlap": "another reply"},
)
class LateReplyCounts(Redlock):
    """On slow links, the grant of an attempt that was given up and undone counts as the grant of the next attempt."""

    WIRE: ClassVar[type[Connection]] = _Forgetful


@mutant(
    "takes for good",
    "what a client takes has a time to live, or another client can give it back",
    conditions="to the end",
    finding="taken-for-good",
    cause="never given back",
    source="otovo/redis-rate-limiters#7",
)
class TakesForGood(CountLock):
    """A client that dies, is late, or is not answered leaves the count raised, and no client is let in any more."""

    TAKE = b"""\
if redis.call("incr",KEYS[1]) == 1 then
    return redis.status_reply("OK")
end
redis.call("decr",KEYS[1])
return false"""


@mutant(
    "a majority lets in",
    "k clients may share n nodes that count to k, so a client needs more than nk/(k + 1) of them",
    conditions="permits",
    finding="over-capacity",
)
class AMajorityLetsIn(CountedSemaphore):
    """Five nodes that let in two clients each have ten votes: enough for three majorities."""

    def quorum(self) -> int:
        return len(self._pool) // 2 + 1


@mutant(
    "counts what is over",
    "a member whose time is over takes no permit",
    conditions="permits, one node",
    finding="place-outlasts-lease",
    cause="place kept",
    source="ixti/sidekiq-throttled#35",
)
class CountsWhatIsOver(CountedSemaphore):
    """All members share the time to live of the set, which each client that gets in prolongs. So a client that dies
    keeps its place for as long as the others are at work."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        purge = next(line for line in ADMIT_SCRIPT.splitlines(keepends=True) if b"zremrangebyscore" in line)
        script = ADMIT_SCRIPT.replace(purge, b"")
        return pack("EVAL", script, 1, f"{key}#members", value, ttl_ms, self._settings.permits)


@mutant(
    "keeps one permit back",
    "a client gets in as long as one of the permits is free",
    conditions="permits, one node",
    finding="permits-unused",
    cause="permits unused",
)
class KeepsOnePermitBack(CountedSemaphore):
    """It counts from one, and the last permit is never given to anybody."""

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", ADMIT_SCRIPT, 1, f"{key}#members", value, ttl_ms, self._settings.permits - 1)


@mutant(
    "takes a second permit",
    "an acquire that has a permit asks for no other one",
    conditions="permits, one node",
    finding="place-taken-twice",
    cause="counted twice",
    source="redisson/redisson#4349",
)
class TakesASecondPermit(CountedSemaphore):
    """What the first round has taken is forgotten, and is no client's until its time is over."""

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        first = super().acquire(key, ttl_ms)
        return super().acquire(key, ttl_ms) if first is not None else None


@mutant(
    "one is enough",
    "N/2 + 1 nodes must grant it",
    conditions="briefly",
    finding="lost-update",
    also={"overlap": "too few nodes"},
)
class OneIsEnough(Redlock):
    """Each client finds a node that no other has, and all of them write what they read together."""

    def quorum(self) -> int:
        return 1
