"""A node goes down and is back before a lease has expired: what does it still know?

The lock is held on n1, n2 and n3. n3 goes down and restarts, and another client asks n3, n4 and n5.
"""

from __future__ import annotations

from harness.scripts.expect import no_overlaps, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment


@experiment(persistence="none", expect=overlaps_blamed_on("lock"))
def crash_without_persistence(stage: Stage) -> None:
    """Without persistence, a node that crashes and restarts immediately has forgotten the lease and grants it again."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    one.acquire("k1")
    stage.nodes("n3").kill().start()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")


@experiment(persistence="aof-everysec", expect=no_overlaps() & sections(2))
def clean_shutdown_with_aof(stage: Stage) -> None:
    """A clean shutdown with an append-only file forgets nothing: the second client has to wait for the release."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    one.acquire("k1")
    stage.nodes("n3").stop().start()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")  # refused
    one.release()
    two.enter("k1")


@experiment(persistence="aof-everysec", expect=no_overlaps() & sections(2))
def crash_with_aof_everysec(stage: Stage) -> None:
    """SIGKILL loses nothing that was written to an append-only file, fsynced or not: the kernel survives the server."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    one.acquire("k1")
    stage.nodes("n3").kill().start()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")  # refused
    one.release()
    two.enter("k1")


def crash_with_more_held(stage: Stage, *held: str) -> None:
    """The lock is held on these nodes, n3 forgets it, and the second client asks all five."""
    one, two = stage.clients("c1", "c2")
    one.sees(*held)
    one.acquire("k1")
    stage.nodes("n3").kill().start()
    two.acquire("k1")  # refused
    one.release()
    two.enter("k1")


@experiment(persistence="none", expect=no_overlaps() & sections(2))
def crash_with_five_keys_held(stage: Stage) -> None:
    """If all five nodes hold the lock, one that forgets it leaves four that refuse all other clients."""
    crash_with_more_held(stage, *stage.node_names)


@experiment(persistence="none", expect=no_overlaps() & sections(2))
def crash_with_four_keys_held(stage: Stage) -> None:
    """If four nodes hold the lock, one that forgets it leaves a majority that refuses all other clients."""
    crash_with_more_held(stage, "n1", "n2", "n3", "n4")
