"""The other remedy: a node that crashed stays down until every lease that it may have granted has expired."""

from __future__ import annotations

from harness.scripts.expect import no_overlaps_blamed_on, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment


@experiment(persistence="none", ttl_ms=2_000, expect=no_overlaps_blamed_on("lock") & sections(2))
def restart_after_the_ttl(stage: Stage) -> None:
    """A node that stays down for longer than the TTL cannot grant a lock that is still held, whatever it forgot.

    The first client never leaves, so it outlives its lease: that is the client's fault, not the lock's.
    """
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    two.sees("n3", "n4", "n5")
    one.acquire("k1")
    stage.nodes("n3").kill().start(after="1.2ttl")
    two.acquire("k1")


@experiment(persistence="none", expect=overlaps_blamed_on("lock"))
def restart_within_the_ttl(stage: Stage) -> None:
    """A delay shorter than the TTL does not help: the first client's lease is still valid when the node is back."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    two.sees("n3", "n4", "n5")
    one.acquire("k1")
    stage.nodes("n3").kill().start(after="0.2ttl")
    two.acquire("k1")
