"""A write that was sent in time and arrives late, because the network held it until the lease had run out.

The client may check its lease right before it writes, and still does harm. The lock is not involved.
"""

from __future__ import annotations

from harness.scripts.expect import (
    lost_updates,
    no_lost_updates,
    no_overlaps,
    no_overlaps_blamed_on,
    sections,
    stale_writes_refused,
)
from harness.scripts.experiment import Stage, experiment


def held_write(stage: Stage, *, tokens: bool = False, dies: bool = False) -> None:
    """The first client's write is held, beyond its lease and its death perhaps, until the second one has written."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    if tokens:
        one.token()
    one.read()
    one.hold_requests()
    written = one.begin("write")
    stage.wait("1.1ttl")
    if dies:
        one.kill()
    two.acquire("k1")
    if tokens:
        two.token()
    two.read()
    two.write()
    one.let_go()
    if not dies:
        written()


@experiment(ttl_ms=500, expect=lost_updates() & no_overlaps_blamed_on("lock"))
def late_write(stage: Stage) -> None:
    """A write that the network holds past the TTL is accepted after the next holder's, and that one is lost."""
    held_write(stage)


@experiment(ttl_ms=500, expect=lost_updates() & no_overlaps() & sections(2))
def late_write_of_a_dead_client(stage: Stage) -> None:
    """The write of a client that has died may still be on its way, and arrive after the next holder's."""
    held_write(stage, dies=True)


@experiment(fencing="writes", ttl_ms=500, expect=no_lost_updates() & stale_writes_refused())
def late_write_with_a_token(stage: Stage) -> None:
    """If the late write carries a fencing token, the resource refuses it: it has seen the next holder's."""
    held_write(stage, tokens=True)
