"""The recipes for one Redis: what happens when a holder dies, or when it releases too late."""

from __future__ import annotations

from harness.scripts.expect import no_overlaps, no_overlaps_blamed_on, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment


def late_release(stage: Stage) -> None:
    """The first client releases when the second one holds the lock, and a third one asks for it."""
    one, two, three = stage.clients("c1", "c2", "c3")
    one.acquire("k1")
    stage.wait("1.1ttl")
    two.acquire("k1")
    one.release()
    three.acquire("k1")


@experiment(lock="set-nx-px-del", nodes=1, clients=3, ttl_ms=2_000, expect=overlaps_blamed_on("lock"))
def release_by_plain_del(stage: Stage) -> None:
    """A holder that outlived its lease deletes the next holder's key, and a third client enters beside that one."""
    late_release(stage)


@experiment(lock="set-nx-px", nodes=1, clients=3, ttl_ms=2_000, expect=no_overlaps_blamed_on("lock") & sections(2))
def release_after_comparing(stage: Stage) -> None:
    """A release that compares the value leaves the next holder's key alone, and the third client is refused."""
    late_release(stage)


def death_inside(stage: Stage) -> None:
    """The holder dies, and the other client asks when the lease would be over."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    one.kill()
    stage.wait("1.5ttl")
    two.acquire("k1")


@experiment(lock="setnx", nodes=1, ttl_ms=1_000, expect=sections(1))
def death_without_an_expiry(stage: Stage) -> None:
    """Without an expiry, the lock of a dead holder never comes free."""
    death_inside(stage)


@experiment(lock="set-nx-px", nodes=1, ttl_ms=1_000, expect=no_overlaps() & sections(2))
def death_with_an_expiry(stage: Stage) -> None:
    """With an expiry, the lock of a dead holder comes free."""
    death_inside(stage)


@experiment(ttl_ms=1_000, expect=no_overlaps() & sections(2))
def death_of_a_redlock_holder(stage: Stage) -> None:
    """With an expiry on every node, the lock of a dead holder comes free."""
    death_inside(stage)


def death_while_acquiring(stage: Stage) -> None:
    """The client dies when the node has the key, and before it hears of that."""
    one, two = stage.clients("c1", "c2")
    one.hold_replies("n1")
    one.begin("acquire", "k1")
    stage.nodes("n1").hold("k1")
    one.kill()
    one.let_go()
    stage.wait("1.5ttl")
    two.acquire("k1")


@experiment(lock="setnx-expire", nodes=1, ttl_ms=1_000, node_timeout_ms=1_000, clients=3, expect=sections(1))
def death_between_setnx_and_expire(stage: Stage) -> None:
    """If the client dies between the two commands, its key has no expiry, and the lock never comes free."""
    stage.client("c3").acquire("k2")  # the lock works
    death_while_acquiring(stage)


@experiment(lock="set-nx-px", nodes=1, ttl_ms=1_000, node_timeout_ms=1_000, clients=3, expect=sections(2))
def death_after_set_nx_px(stage: Stage) -> None:
    """If key and expiry are set in one command, the lock of a client that died comes free."""
    stage.client("c3").acquire("k2")
    death_while_acquiring(stage)
