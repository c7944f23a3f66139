"""A primary and its replicas: what does the one that takes over know of the lock?

n2, n3, … copy n1, each through a link of its own, so that it can be cut. n1 dies, and a replica is promoted: the
script, like an authority that does not know who is up to date, or Redis Sentinel.
"""

from __future__ import annotations

from typing import Any, Final

from harness.scripts.expect import no_overlaps, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment

_MANUAL: Final[dict[str, Any]] = {"nodes": 3, "ttl_ms": 20_000, "replication": "manual", "witness": "off"}
# A busy machine may delay an election, and one that comes to nothing is repeated much later.
_SENTINEL: Final[dict[str, Any]] = {**_MANUAL, "ttl_ms": 120_000, "replication": "sentinel"}


def hold_and_lose(stage: Stage, *, cut: tuple[str, ...], dying: tuple[str, ...] = ("n1",)) -> None:
    """The first client takes the lock on n1, then these nodes die. `cut`: the replicas whose replication is cut
    before."""
    one, two = stage.clients("c1", "c2")
    two.acquire("k2")
    stage.nodes(*stage.node_names).hold("k2")  # the copies are kept up to date
    if cut:
        stage.nodes(*cut).lose("n1")
    if one.acquire("k1").outcome == "ok" and not cut:
        stage.nodes(*stage.node_names).hold("k1")
    stage.nodes(*dying).kill()


def fail_over(stage: Stage, *, cut: tuple[str, ...]) -> None:
    """The script promotes n3, whatever it knows, and the second client asks for the lock."""
    hold_and_lose(stage, cut=cut)
    stage.nodes("n3").promote()
    stage.nodes("n2").follow("n3")
    enter_next(stage)


def fail_over_by_sentinel(
    stage: Stage, *, cut: tuple[str, ...], dying: tuple[str, ...] = ("n1",), within: str = "0"
) -> None:
    """The sentinels promote a replica, and the second client asks for the lock, again and again for this long."""
    hold_and_lose(stage, cut=cut, dying=dying)
    stage.await_failover("n1")
    enter_next(stage, within=within)


def enter_next(stage: Stage, within: str = "0") -> None:
    """The second client, who holds another lock, asks for that of the first one."""
    two = stage.client("c2")
    two.release()
    two.enter("k1", within)


@experiment(lock="primary-replica", expect=overlaps_blamed_on("lock"), **_MANUAL)
def failover(stage: Stage) -> None:
    """A primary that is cut from its replica and then dies takes the lock with it: the new primary grants it again."""
    fail_over(stage, cut=("n2", "n3"))


@experiment(lock="primary-replica", expect=no_overlaps() & sections(2), **_MANUAL)
def failover_of_a_copy(stage: Stage) -> None:
    """A replica that has the key before it takes over refuses the second client."""
    fail_over(stage, cut=())


@experiment(lock="primary-replica-wait", expect=no_overlaps() & sections(2), **_MANUAL)
def failover_with_wait(stage: Stage) -> None:
    """A client that waits for a replica is refused where none acknowledges, so only the second client gets in."""
    fail_over(stage, cut=("n2", "n3"))


@experiment(lock="primary-replica-wait", expect=overlaps_blamed_on("lock"), **_MANUAL)
def failover_to_the_other_replica(stage: Stage) -> None:
    """One replica has acknowledged the key, and the other one takes over: two clients hold the lock."""
    fail_over(stage, cut=("n3",))


@experiment(lock="primary-by-sentinel", expect=overlaps_blamed_on("lock"), **_SENTINEL)
def failover_by_sentinel(stage: Stage) -> None:
    """Sentinel replaces a primary that was cut from its replicas and died: the new one grants the lock again."""
    fail_over_by_sentinel(stage, cut=("n2", "n3"))


@experiment(lock="primary-by-sentinel", expect=no_overlaps() & sections(2), **_SENTINEL)
def failover_by_sentinel_of_a_copy(stage: Stage) -> None:
    """Whichever replica Sentinel promotes, it refuses the second client if both have the key."""
    fail_over_by_sentinel(stage, cut=())


@experiment(lock="primary-by-sentinel-wait", expect=no_overlaps() & sections(2), **_SENTINEL)
def failover_by_sentinel_with_wait(stage: Stage) -> None:
    """A client that waits for a replica is refused where none acknowledges, so only the second client gets in."""
    fail_over_by_sentinel(stage, cut=("n2", "n3"))


@experiment(lock="primary-by-sentinel-wait", expect=overlaps_blamed_on("lock"), **{**_SENTINEL, "nodes": 4})
def failover_by_sentinel_to_another_replica(stage: Stage) -> None:
    """The replica that acknowledged the key dies with the primary. Sentinel promotes another one, which n4 follows."""
    fail_over_by_sentinel(stage, cut=("n3", "n4"), dying=("n1", "n2"), within="30s")
