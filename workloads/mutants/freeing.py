"""Mutants that release wrongly."""

from __future__ import annotations

import threading
import time
from hashlib import sha1

from workloads.base import Lease
from workloads.connection import SILENT, Reply, pack
from workloads.locks.redlock import RELEASE_SCRIPT, Redlock
from workloads.mutants.declared import mutant
from workloads.mutants.extending import SET_ANYWAY


@mutant(
    "frees without comparing",
    "delete the key only if it holds the client's own value",
    conditions="busy",
    finding="overlap",
    cause="deleted",
    source="redisson/redisson#542",
)
class FreesWithoutComparing(Redlock):
    """A failed attempt, or a late release, frees another client's lock."""

    def release_request(self, key: str, value: str) -> bytes:
        return pack("DEL", key)


@mutant(
    "compares, then frees",
    "the comparison and the deletion are one command",
    conditions="waiting",
    finding="lease-without-majority",
    cause="deleted",
    source="nammayatri/nammayatri#16185",
)
class ComparesThenFrees(Redlock):
    """If its lease ends between the two, it frees another client's lock."""

    def free(self, key: str, value: str, patient: bool = True) -> list[Reply]:
        own = self._pool.ask(pack("GET", key))
        for place, reply in enumerate(own):
            if reply == value.encode():
                own[place] = self._pool.ask(pack("DEL", key), only=place)[0]
        return own


@mutant(
    "frees a majority",
    "release on all nodes, whatever they replied",
    conditions="alone",
    finding="keys-left-behind",
)
class FreesAMajority(Redlock):
    """The keys on the other nodes stay until they expire. If one of the freed nodes is unreachable, no client can get a
    majority for that long."""

    def ask_to_release(self, request: bytes, patient: bool) -> list[Reply]:
        return [self._pool.ask(request, only=index, patient=patient)[0] for index in range(self.quorum())]


@mutant(
    "frees until one is silent",
    "release on all nodes, also if one of them does not reply",
    conditions="alone",
    finding="keys-left-behind",
    source="glasslion/redlock#11",
)
class FreesUntilOneIsSilent(Redlock):
    """The nodes that would be asked after one that is down keep the key until it expires."""

    def ask_to_release(self, request: bytes, patient: bool) -> list[Reply]:
        replies: list[Reply] = [SILENT] * len(self._pool)
        for index in range(len(self._pool)):
            replies[index] = self._pool.ask(request, only=index, patient=patient)[0]
            if replies[index] is SILENT:
                break
        return replies


@mutant(
    "loads its script once",
    "a node that came back has forgotten its scripts",
    conditions="alone",
    finding="keys-left-behind",
    source="leandromoreira/redlock-rb#148",
)
class LoadsItsScriptOnce(Redlock):
    """The keys on a node that was restarted stay until they expire, section after section."""

    def release_request(self, key: str, value: str) -> bytes:
        mine = vars(self)
        if "loaded" not in mine:
            self._pool.ask(pack("SCRIPT", "LOAD", RELEASE_SCRIPT))
            mine["loaded"] = sha1(RELEASE_SCRIPT, usedforsecurity=False).hexdigest()  # the name the server gives it
        return pack("EVALSHA", mine["loaded"], 1, key, value)


@mutant(
    "leaves refused attempts",
    "an attempt that is refused is released on all nodes",
    conditions="busy",
    finding="unavailable-while-free",
    cause="stuck keys",
    also={"keys-left-behind": "not undone"},
    source="redisson/redisson#4197",
)
class LeavesRefusedAttempts(Redlock):
    """Clients that share the votes block each other, and themselves, until their keys expire."""

    def undo(self, key: str, value: str) -> None:
        pass


@mutant(
    "extends once more after the release",
    "a release is the last that a client asks for",
    conditions="busy",
    finding="release-without-effect",
    cause="set again",
    also={"changed-another-clients-key": "overwritten"},
    source="samcook/RedLock.net#64",
)
class ExtendsOnceMoreAfterTheRelease(Redlock):
    """An extension that was due when half of the lease had passed comes after the release, and sets the keys again."""

    def release(self, lease: Lease) -> bool:
        released = super().release(lease)
        assert lease.deadline_ns is not None
        assert lease.validity_ms is not None
        if lease.deadline_ns - time.monotonic_ns() < lease.validity_ms / 2 * 1e6:
            self._pool.ask(pack("EVAL", SET_ANYWAY, 1, lease.key, lease.value, round(lease.validity_ms)))
        return released


@mutant(
    "renews after the release",
    "a release stops the renewals",
    conditions="busy",
    finding="renewal-after-release",
    also={"release-without-effect": "set again"},
    source="redisson/redisson#7272",
)
class RenewsAfterTheRelease(Redlock):
    """Its watchdog does not learn of the release, and takes the lock once more where it finds the key gone."""

    def release(self, lease: Lease) -> bool:
        def renew() -> None:
            assert lease.validity_ms is not None
            time.sleep(0.8 * lease.validity_ms / 1e3)
            self._pool.ask(self.acquire_request(lease.key, lease.value, round(lease.validity_ms)))
            self._pool.close()

        threading.Thread(target=renew, daemon=True).start()
        return super().release(lease)


@mutant(
    "releases another name",
    "the key that is deleted is the key that was set",
    conditions="alone",
    finding="release-without-effect",
    cause="another key",
)
class ReleasesAnotherName(Redlock):
    """No release frees anything, and the lock takes the nodes' silence about it for a yes."""

    def release(self, lease: Lease) -> bool:
        return not any(reply is SILENT for reply in self.free(f"lock:{lease.key}", lease.value))


@mutant(
    "denies what it holds",
    "the value that the node holds is compared with the value that was set",
    conditions="busy",
    finding="keys-left-behind",
    cause="denied",
)
class DeniesWhatItHolds(Redlock):
    """It compares bytes with text: it tells its user that the lock was lost, and leaves the keys."""

    def release(self, lease: Lease) -> bool:
        held = self._pool.ask(pack("GET", lease.key))
        return held.count(lease.value) >= self.quorum() and super().release(lease)  # type: ignore[arg-type]  # as it is


EXPIRE_SOON = b"""\
if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("expire",KEYS[1],1)
else
    return 0
end"""


@mutant(
    "frees a second later",
    "a released key is gone at once",
    conditions="a key of its own",
    finding="refused-without-rival",
)
class FreesASecondLater(Redlock):
    """A release gives the key one millisecond to live, and EXPIRE counts in seconds."""

    def release_request(self, key: str, value: str) -> bytes:
        return pack("EVAL", EXPIRE_SOON, 1, key, value)


@mutant(
    "frees what refused it",
    "an attempt that is refused deletes its own keys only",
    conditions="busy",
    finding="lease-lost-early",
    source="libgit2/libgit2#246",
)
class FreesWhatRefusedIt(Redlock):
    """The release compares values, and the cleaning up after a refusal does not: the holder loses its lease."""

    def undo(self, key: str, value: str) -> None:
        self._pool.ask(pack("DEL", key), patient=False)
