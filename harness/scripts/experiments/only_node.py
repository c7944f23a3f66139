"""The lock is on a single node, which goes down: what does it still know when it is back?"""

from __future__ import annotations

from harness.scripts.expect import no_overlaps, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment


def crash_of_the_only_node(stage: Stage) -> None:
    """Two clients hold a lock each on one node, which crashes and restarts. Two others ask for the same locks."""
    one, two, three, four = stage.clients("c1", "c2", "c3", "c4")
    one.acquire("k1")
    two.acquire("k2")
    stage.nodes("n1").kill().start()
    three.enter("k1", within="0.1ttl")
    four.enter("k2", within="0.1ttl")


@experiment(
    lock="set-nx-px", nodes=1, clients=4, keys=2, persistence="none", expect=overlaps_blamed_on("lock") & sections(4)
)
def crash_of_the_only_node_without_persistence(stage: Stage) -> None:
    """A single node that restarts empty has lost every lock: each of them is granted a second time."""
    crash_of_the_only_node(stage)


@experiment(lock="set-nx-px", nodes=1, clients=4, keys=2, persistence="aof-always", expect=no_overlaps() & sections(2))
def crash_of_the_only_node_with_aof(stage: Stage) -> None:
    """A single node that has its locks on disk keeps every lock over a crash."""
    crash_of_the_only_node(stage)


def off_for_a_while(stage: Stage, time: str) -> None:
    """The holder dies, and its node is off for this long. The second client asks once the node is back."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    one.kill()
    stage.nodes("n1").stop().start(after=time)
    two.enter("k1", within="0.1ttl")


@experiment(lock="set-nx-px", nodes=1, persistence="aof-everysec", ttl_ms=6_000, expect=no_overlaps() & sections(2))
def off_for_longer_than_the_ttl(stage: Stage) -> None:
    """The TTL of a key runs on while its server is off: the key is gone once the server is back."""
    off_for_a_while(stage, "1.1ttl")


@experiment(lock="set-nx-px", nodes=1, persistence="aof-everysec", ttl_ms=6_000, expect=no_overlaps() & sections(1))
def off_for_less_than_the_ttl(stage: Stage) -> None:
    """A key whose TTL is not over is still there once the server is back, and the second client is refused."""
    off_for_a_while(stage, "0")
