"""A node that goes down and is back before a lease ran out: what does it still know?

The lock is held on n1, n2 and n3; n3 goes down and comes back, and n3, n4 and n5 are asked by somebody else.
"""

from __future__ import annotations

from harness.scripts.expect import no_overlaps, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment


@experiment(persistence="none", expect=overlaps_blamed_on("lock"))
def crash_without_persistence(stage: Stage) -> None:
    """Without persistence a node that crashes and restarts at once has forgotten the lease, and grants it again."""
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
    """SIGKILL costs an append-only file nothing, however seldom it is fsynced: the kernel outlives the server."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    one.acquire("k1")
    stage.nodes("n3").kill().start()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")  # refused
    one.release()
    two.enter("k1")
