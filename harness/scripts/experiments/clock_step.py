"""A node's wall clock steps while it holds a key: what does the lock still hold?

The lock is held on n1, n2 and n3. A clock steps ahead by more than the TTL, and another client asks n3, n4 and n5.
"""

from __future__ import annotations

from harness.scripts.expect import failed_by, no_overlaps, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment


@experiment(clocks=True, expect=overlaps_blamed_on("lock") & failed_by("clock"))
def clock_step(stage: Stage) -> None:
    """A step of one node's clock expires its key early: two clients hold the lock at once, both within their leases."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    one.acquire("k1")
    stage.nodes("n3").step_clock("1.2ttl")
    two.sees("n3", "n4", "n5")
    two.acquire("k1")


@experiment(clocks=True, expect=no_overlaps() & sections(2))
def clock_step_elsewhere(stage: Stage) -> None:
    """The same step on a node that holds no key of the lock harms nobody: the second client waits for the release."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    one.acquire("k1")
    stage.nodes("n4").step_clock("1.2ttl")
    two.sees("n3", "n4", "n5")
    two.acquire("k1")  # refused
    one.release()
    two.enter("k1")
