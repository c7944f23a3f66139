"""Fencing tokens that come too late, or from the wrong place; and what order is good for."""

from __future__ import annotations

from harness.scripts.expect import (
    lost_updates,
    no_lost_updates,
    no_tokens_went_back,
    no_writes_refused,
    sections,
    stale_writes_refused,
    tokens_went_back,
)
from harness.scripts.experiment import Stage, experiment


def stalled_after_its_read(stage: Stage, *, own_token: bool) -> None:
    """The first client reads under the lock, and goes on when the second one has written. `own_token`: only then does
    it draw its token."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    one.read()
    stage.wait("1.1ttl")
    two.acquire("k1")
    if own_token:
        two.token()
    two.read()
    two.write()
    if own_token:
        one.token()
    one.write()


@experiment(fencing="writes", ttl_ms=500, expect=lost_updates())
def token_after_lock_and_read(stage: Stage) -> None:
    """A token that is drawn after the read is larger than the next holder's, and does not keep the late write out."""
    stalled_after_its_read(stage, own_token=True)


@experiment(
    lock="set-nx-px-token", nodes=1, fencing="writes", ttl_ms=500, expect=no_lost_updates() & stale_writes_refused()
)
def token_with_the_lock(stage: Stage) -> None:
    """A token that was granted together with the lock keeps the late write out."""
    stalled_after_its_read(stage, own_token=False)


@experiment(fencing="all", ttl_ms=500, expect=no_lost_updates())
def token_after_lock_before_read(stage: Stage) -> None:
    """If the read carries the token too, a token drawn after the lock covers it, and no update is lost."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    stage.wait("1.1ttl")
    two.acquire("k1")
    two.token()
    two.read()
    one.token()
    one.read()
    two.write()  # refused, although it holds the lock
    one.write()


def crash_between_holders(stage: Stage) -> None:
    """The lock is taken three times on n1, n2 and n3; n3 crashes; then it is taken on n3, n4 and n5."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    for _ in range(3):
        one.acquire("k1")
        one.release()
    stage.nodes("n3").kill().start()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")


@experiment(lock="redlock-token", persistence="none", expect=tokens_went_back() & sections(4))
def tokens_by_majority(stage: Stage) -> None:
    """Tokens that are counted on a majority of the nodes go back when a node forgets its count."""
    crash_between_holders(stage)


@experiment(lock="redlock-token", persistence="aof-always", expect=no_tokens_went_back() & sections(4))
def tokens_by_majority_on_disk(stage: Stage) -> None:
    """In the same steps, such tokens grow if no node forgets its count."""
    crash_between_holders(stage)


@experiment(lock="redlock-token", expect=tokens_went_back() & sections(2))
def tokens_by_majority_without_a_crash(stage: Stage) -> None:
    """Refused attempts raise the counts of two nodes. A majority with one of them gives a large token, and the next
    majority, without them, a small one."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2")
    one.acquire("k1")  # refused
    one.sees("n1", "n4", "n5")
    one.acquire("k1")
    one.release()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")


def stalled_before_its_read(stage: Stage, *, tokens: bool) -> None:
    """The first client reads when its lease is over and the second one has read. Then both write."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    if tokens:
        one.token()
    stage.wait("1.1ttl")
    two.acquire("k1")
    if tokens:
        two.token()
    two.read()
    if one.read().outcome == "ok":
        two.write()
        one.write()
    else:
        two.write()


@experiment(workload="register", fencing="unique", ttl_ms=500, expect=no_lost_updates() & stale_writes_refused())
def unique_value_of_a_late_client(stage: Stage) -> None:
    """A client that comes too late leaves its unique value, and the write of the rightful holder is refused."""
    stalled_before_its_read(stage, tokens=False)


@experiment(workload="register", fencing="all", ttl_ms=500, expect=no_lost_updates() & no_writes_refused())
def token_of_a_late_client(stage: Stage) -> None:
    """A client that comes too late shows a smaller token; its read is refused, and the rightful holder writes."""
    stalled_before_its_read(stage, tokens=True)
