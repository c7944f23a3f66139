"""A primary and its replicas: what does the one that takes over know of the lock?

n2 and n3 copy n1, each through a link that nobody else uses (c3's and c4's to n1), so that it can be cut. The script
decides that n3 takes over, like a failover that does not know who is up to date, and n2 follows it then.
"""

from __future__ import annotations

from typing import Any, Final

from harness.scripts.expect import no_overlaps, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment

# The watcher takes a replica's copy of a key for a vote of its own.
_THREE: Final[dict[str, Any]] = {"nodes": 3, "clients": 4, "ttl_ms": 5_000, "witness": "off", "cluster": "process"}


def fail_over(stage: Stage, *, cut: tuple[str, ...]) -> None:
    """n1 dies with the first client's lock, n3 takes over, and the second client asks for it. `cut`: the clients whose
    links carry the replication that is cut before."""
    one, two = stage.clients("c1", "c2")
    stage.nodes("n2").follow("n1", through="c3")
    stage.nodes("n3").follow("n1", through="c4")
    two.acquire("k2")
    stage.nodes("n1", "n2", "n3").hold("k2")  # the copies are kept up to date
    for client in cut:
        stage.client(client).sees("n2", "n3")
    if one.acquire("k1").outcome == "ok" and not cut:
        stage.nodes("n3").hold("k1")
    stage.nodes("n1").kill()
    stage.nodes("n3").promote()
    stage.nodes("n2").follow("n3", through="c3")
    two.release()
    two.acquire("k1")


@experiment(lock="primary-replica", expect=overlaps_blamed_on("lock"), **_THREE)
def failover(stage: Stage) -> None:
    """A primary that is cut from its replica and then dies takes the lock with it: the new primary grants it again."""
    fail_over(stage, cut=("c3", "c4"))


@experiment(lock="primary-replica", expect=no_overlaps() & sections(2), **_THREE)
def failover_of_a_copy(stage: Stage) -> None:
    """A replica that has the key before it takes over refuses the second client."""
    fail_over(stage, cut=())


@experiment(lock="primary-replica-wait", expect=no_overlaps() & sections(2), **_THREE)
def failover_with_wait(stage: Stage) -> None:
    """A client that waits for a replica is refused where none acknowledges, so only the second client gets in."""
    fail_over(stage, cut=("c3", "c4"))


@experiment(lock="primary-replica-wait", expect=overlaps_blamed_on("lock"), **_THREE)
def failover_to_the_other_replica(stage: Stage) -> None:
    """One replica has acknowledged the key, and the other one takes over: two clients hold the lock."""
    fail_over(stage, cut=("c4",))
