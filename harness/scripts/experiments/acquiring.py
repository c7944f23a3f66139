"""What a lock does when its client or its nodes are slow, or gone, while it is acquired or extended."""

from __future__ import annotations

from harness.scripts.expect import (
    no_overlaps,
    no_overlaps_blamed_on,
    overlaps_blamed_on,
    sections,
    waited_at_most,
    waited_longer_than,
)
from harness.scripts.experiment import Stage, experiment
from nemesis.pause import Pause


def pause_while_acquiring(stage: Stage, *, clock_steps: str | None = None) -> None:
    """The first client is stopped when all nodes have granted it the lock, and learns of that when the TTL is over.
    `clock_steps`: by how much its clock is set forward meanwhile."""
    one, two = stage.clients("c1", "c2")
    one.hold_replies(*stage.node_names)
    acquired = one.begin("acquire", "k1")
    stage.nodes(*stage.node_names).hold("k1")
    one.pause()
    one.let_go()
    if clock_steps:
        one.step_clock(clock_steps)
    stage.wait("1.1ttl")
    two.acquire("k1")
    one.resume()
    acquired()


@experiment(ttl_ms=2_000, node_timeout_ms=2_000, expect=no_overlaps() & sections(1))
def pause_in_acquire(stage: Stage) -> None:
    """A client that was stopped between its request and the replies looks at the time, and is refused."""
    pause_while_acquiring(stage)


@experiment(lock="control-no-validity-check", ttl_ms=2_000, node_timeout_ms=2_000, expect=overlaps_blamed_on("lock"))
def pause_in_acquire_unchecked(stage: Stage) -> None:
    """Without a look at the time, a client that was stopped enters beside the next holder."""
    pause_while_acquiring(stage)


@experiment(ttl_ms=1_000, node_timeout_ms=1_000, expect=no_overlaps() & sections(1))
def slow_replies(stage: Stage) -> None:
    """A client whose replies are held past the TTL is refused."""
    one, two = stage.clients("c1", "c2")
    one.hold_replies(*stage.node_names)
    acquired = one.begin("acquire", "k1")
    stage.nodes(*stage.node_names).hold("k1")
    stage.wait("1.1ttl")
    two.acquire("k1")
    one.let_go()
    acquired()


def with_nodes_gone(stage: Stage) -> None:
    """Both clients ask while the nodes are gone."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    two.acquire("k2")


@experiment(expect=no_overlaps() & sections(2))
def two_of_five_down(stage: Stage) -> None:
    """With a minority of the nodes down, the lock can be acquired."""
    stage.nodes("n1", "n2").kill()
    with_nodes_gone(stage)


@experiment(expect=no_overlaps() & sections(2))
def two_of_five_hung(stage: Stage) -> None:
    """With a minority of the nodes hung, the lock can be acquired."""
    stage.inject("pause", Pause(nodes=("n1", "n2")))
    with_nodes_gone(stage)


@experiment(expect=no_overlaps() & sections(1))
def three_of_five_down(stage: Stage) -> None:
    """With a majority of the nodes down, the lock cannot be acquired until they are back."""
    nodes = stage.nodes("n1", "n2", "n3").kill()
    with_nodes_gone(stage)  # both are refused
    nodes.start()
    stage.client("c1").enter("k3", within="20s")


def with_two_silent_nodes(stage: Stage) -> None:
    """The client asks one node after the other, of which one is out of reach and another one hangs."""
    one = stage.client("c1")
    one.sees("n1", "n3", "n4", "n5")
    stage.inject("pause", Pause(nodes=("n1",)))
    one.acquire("k1")


@experiment(acquire_mode="sequential", node_timeout_ms=50, clients=1, expect=waited_at_most(1_000) & sections(1))
def short_wait_for_a_silent_node(stage: Stage) -> None:
    """With a small time limit for each node, silent nodes do not delay an acquire."""
    with_two_silent_nodes(stage)


@experiment(acquire_mode="sequential", node_timeout_ms=2_000, clients=1, expect=waited_longer_than(3_000) & sections(1))
def long_wait_for_a_silent_node(stage: Stage) -> None:
    """With a large time limit for each node, every silent node delays an acquire by that time."""
    with_two_silent_nodes(stage)


def long_work(stage: Stage, *, extended: bool) -> None:
    """The first client works for three TTLs; the second one asks again and again."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    for _ in range(6):
        stage.wait("0.5ttl")
        if extended:
            one.extend()
        two.enter("k1")


@experiment(ttl_ms=1_500, expect=no_overlaps() & sections(1))
def extended_in_time(stage: Stage) -> None:
    """A lock that is extended within its validity stays exclusive; no other client gets in as long as that goes on."""
    long_work(stage, extended=True)


@experiment(ttl_ms=1_500, expect=no_overlaps_blamed_on("lock") & overlaps_blamed_on("client") & sections(2))
def never_extended(stage: Stage) -> None:
    """A lock that is not extended comes free after its TTL, whether its holder has finished or not."""
    long_work(stage, extended=False)
