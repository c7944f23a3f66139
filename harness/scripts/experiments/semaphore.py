"""A counting semaphore over several nodes: is a majority of the nodes enough for each holder?"""

from __future__ import annotations

from harness.scripts.expect import capacity_exceeded, capacity_kept
from harness.scripts.experiment import Stage, experiment


def three_majorities(stage: Stage) -> None:
    """Three clients ask for one of two permits, each on another majority of the nodes."""
    one, two, three = stage.clients("c1", "c2", "c3")
    one.sees("n1", "n2", "n3")
    two.sees("n1", "n4", "n5")
    three.sees("n2", "n3", "n4")
    one.acquire("k1")
    two.acquire("k1")
    three.acquire("k1")


@experiment(
    workload="semaphore", lock="control-semaphore-by-majority", permits=2, clients=3, expect=capacity_exceeded()
)
def semaphore_by_majority(stage: Stage) -> None:
    """If each node admits two clients and a majority of the nodes is enough, a third client gets in."""
    three_majorities(stage)


@experiment(workload="semaphore", lock="semaphore", permits=2, clients=3, expect=capacity_kept(2))
def semaphore_of_locks(stage: Stage) -> None:
    """If each permit is a lock of its own, the third client is refused."""
    three_majorities(stage)
