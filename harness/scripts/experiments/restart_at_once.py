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
    """SIGKILL loses nothing of an append-only file, however rarely it is fsynced: the kernel survives the server."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    one.acquire("k1")
    stage.nodes("n3").kill().start()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")  # refused
    one.release()
    two.enter("k1")
