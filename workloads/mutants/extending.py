"""Mutants that extend a lease wrongly."""

from __future__ import annotations

import time
from dataclasses import replace

from workloads.base import Lease
from workloads.connection import pack
from workloads.locks.redlock import Redlock
from workloads.locks.redlock_renewing import RenewingRedlock
from workloads.mutants.declared import mutant

SET_IF_THERE = b"""\
if redis.call("set",KEYS[1],ARGV[1],"xx","px",ARGV[2]) then return 1 else return 0 end"""

SET_ANYWAY = b"""\
redis.call("set",KEYS[1],ARGV[1],"px",ARGV[2])
return 1"""

EXPIRE_LATER = b"""\
if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("pexpire",KEYS[1],redis.call("pttl",KEYS[1]) + ARGV[2])
else
    return 0
end"""

EXPIRE_IN_SECONDS = b"""\
if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("expire",KEYS[1],ARGV[2])
else
    return 0
end"""


@mutant(
    "any node extends",
    "a majority must extend the key",
    conditions="long work, impatient",
    finding="extension-without-majority",
    also={"lease-outlasts-keys": "not prolonged"},
)
class ExtendedByAnyNode(Redlock):
    """Cut off from a majority, the client continues to work while the keys expire there."""

    def extend_quorum(self) -> int:
        return 1


@mutant(
    "extends whatever they reply",
    "an extension that is refused is no extension",
    conditions="long work, impatient",
    finding="extension-without-majority",
    source="redisson/redisson#2037",
    also={"lease-outlasts-keys": "not prolonged"},
)
class ExtendsWhateverTheyReply(Redlock):
    """Its keys are gone, and it goes on from lease to lease."""

    def extend_quorum(self) -> int:
        return 0


@mutant(
    "extends what is over",
    "an extension must be granted within the validity",
    conditions="long work",
    finding="late-extension",
    also={"lost-lease-extended": ""},
    source="leandromoreira/redlock-rb#36",
)
class ExtendsWhatIsOver(Redlock):
    """It held no lease between the end of the old one and the start of the new one, and does not report that."""

    def may_extend(self, lease_deadline_ns: int, now_ns: int) -> bool:
        return True


@mutant(
    "adds up the votes of its tries",
    "a majority must extend the key in one try",
    conditions="long work, impatient",
    finding="lease-outlasts-keys",
    cause="not prolonged",
)
class AddsUpTheVotes(Redlock):
    """A node that says yes twice counts twice."""

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        said_yes = 0
        for _ in range(self.ROUNDS):
            requested_ns = time.monotonic_ns()
            replies = self._ask(self.extend_request(lease.key, lease.value, ttl_ms))
            said_yes += sum(reply == 1 for reply in replies)
            extended = self._lease(lease.key, lease.value, ttl_ms, requested_ns)
            if lease.deadline_ns is None or not self.may_extend(lease.deadline_ns, time.monotonic_ns()):
                return None
            if said_yes >= self.extend_quorum():
                return extended
        return None


@mutant(
    "prolongs another's key",
    "extend the key only if it holds the client's own value",
    conditions="long work, impatient",
    finding="changed-another-clients-key",
    cause="prolonged",
    also={"lease-outlasts-keys": "not prolonged"},
    source="sibson/redbeat#127",
)
class ProlongsAnothersKey(Redlock):
    """It counts nodes that another client holds, or is just trying to get."""

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("PEXPIRE", key, ttl_ms)


@mutant(
    "extends by overwriting",
    "an extension does not change who holds the key",
    conditions="long work, impatient",
    finding="changed-another-clients-key",
    cause="overwritten",
)
class ExtendsByOverwriting(Redlock):
    """On the nodes that it had lost, it takes the key from the client that has got it in the meantime."""

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", SET_IF_THERE, 1, key, value, ttl_ms)


@mutant(
    "an extension acquires",
    "an extension sets no key that is gone",
    conditions="long work, impatient",
    finding="changed-another-clients-key",
    cause="overwritten",
    source="leandromoreira/redlock-rb#36",
)
class AnExtensionAcquires(Redlock):
    """It sets the key wherever it asks, and so it always holds a majority of the nodes that it reaches."""

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", SET_ANYWAY, 1, key, value, ttl_ms)


@mutant(
    "adds the TTL to what is left",
    "an extended lease ends one TTL after its extension was requested",
    conditions="long work",
    finding="overstated-validity",
)
class AddsTheTtl(Redlock):
    """The keys get one TTL from now, and the client is told one TTL from the end of its old lease."""

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        extended = super().extend(lease, ttl_ms)
        if extended is None or extended.validity_ms is None or extended.deadline_ns is None or not lease.deadline_ns:
            return extended
        more_ns = lease.deadline_ns + int(ttl_ms * 1e6) - extended.deadline_ns
        return replace(
            extended, deadline_ns=extended.deadline_ns + more_ns, validity_ms=extended.validity_ms + more_ns / 1e6
        )


@mutant(
    "extends for seconds",
    "PEXPIRE takes milliseconds",
    conditions="long work",
    finding="keys-outlast-lease",
    source="leandromoreira/redlock-rb#44",
)
class ExtendsForSeconds(Redlock):
    """The keys of a client that dies after an extension stay for a thousand leases."""

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", EXPIRE_IN_SECONDS, 1, key, value, ttl_ms)


@mutant(
    "adds the TTL to what the keys have left",
    "an extension gives the keys one TTL from when it arrives",
    conditions="long work",
    finding="keys-outlast-lease",
    source="redis/redis-py#629",
)
class AddsToWhatTheKeysHaveLeft(Redlock):
    """With each extension the keys of a client that then dies stay for longer."""

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return pack("EVAL", EXPIRE_LATER, 1, key, value, ttl_ms)


@mutant(
    "extends for thousandths",
    "PEXPIRE takes milliseconds",
    conditions="long work",
    finding="overlap",
    cause="expired",
    source="FoundatioFx/Foundatio.Redis#73",
)
class ExtendsForThousandths(Redlock):
    """The extension makes the keys expire at once."""

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return super().extend_request(key, value, max(1, ttl_ms // 1000))


@mutant(
    "renews nothing",
    "a lease is renewed for as long as its client is inside",
    conditions="renewing",
    finding="renewal-missed",
    cause="not renewed",
)
class RenewsNothing(RenewingRedlock):
    """The keys of a client whose work takes longer than a lease expire."""

    def renewed(self, lease: Lease, ttl_ms: int) -> Lease | None:
        return None


@mutant(
    "acquires what it lost",
    "an extension that is refused is no extension",
    conditions="long work",
    finding="lost-lease-extended",
    cause="set by an extension",
    source="swarthy/redis-semaphore#175",
)
class AcquiresWhatItLost(Redlock):
    """When its lease is over it takes the lock anew, and does not tell its user that others may have been inside."""

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        return super().extend(lease, ttl_ms) or self.acquire(lease.key, ttl_ms)


@mutant(
    "extends for nothing",
    "PEXPIRE by nothing deletes the key",
    conditions="long work",
    finding="lease-without-majority",
    cause="deleted by itself",
    source="redis/redis-py#4279",
)
class ExtendsForNothing(Redlock):
    """The nodes say that they prolonged the key, and it is gone."""

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        return super().extend_request(key, value, 0)
