"""How a client leaves: stopped beyond its lease, cut off before its release, or refused and gone."""

from __future__ import annotations

from harness.scripts.expect import no_overlaps, no_overlaps_blamed_on, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment


def stopped_inside(stage: Stage) -> None:
    """The holder is stopped beyond its lease, and works on beside the next one."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    one.pause()
    stage.wait("1.1ttl")
    two.acquire("k1")
    one.resume()
    one.read()


@experiment(ttl_ms=1_000, expect=overlaps_blamed_on("client") & no_overlaps_blamed_on("lock"))
def pause_in_section(stage: Stage) -> None:
    """A holder that is stopped beyond its validity works beside the next one: the client outlived its lease."""
    stopped_inside(stage)


@experiment(
    lock="set-nx-px",
    nodes=1,
    ttl_ms=1_000,
    expect=overlaps_blamed_on("client") & no_overlaps_blamed_on("lock"),
)
def pause_in_section_on_one_node(stage: Stage) -> None:
    """The same with a lock on one node."""
    stopped_inside(stage)


@experiment(expect=no_overlaps() & sections(2))
def section_within_the_lease(stage: Stage) -> None:
    """As long as a holder leaves within its validity, the next one waits for it."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    two.acquire("k1")  # refused
    one.release()
    two.enter("k1")


@experiment(expect=no_overlaps() & sections(1))
def cut_off_before_the_release(stage: Stage) -> None:
    """The lock of a client that is cut off before it can release stays taken until its TTL is over."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    one.sees()
    one.release()
    two.acquire("k1")  # refused


@experiment(expect=no_overlaps() & sections(2))
def cut_off_after_the_release(stage: Stage) -> None:
    """The lock of a client that is cut off after its release is free at once."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    one.release()
    one.sees()
    two.acquire("k1")


def refused_with_two_nodes(stage: Stage) -> None:
    """The first client gets two nodes, which are too few; the second one needs one of these two."""
    one, two = stage.clients("c1", "c2")
    two.acquire("k2")  # the lock works
    two.release()
    one.sees("n1", "n2")
    one.acquire("k1")
    two.sees("n2", "n3", "n4")
    two.acquire("k1")


@experiment(lock="workloads.mutants:LeavesRefusedAttempts", expect=sections(1))
def partial_locks_kept(stage: Stage) -> None:
    """If a refused client keeps the keys that it got, they stand in the way of the next one."""
    refused_with_two_nodes(stage)


@experiment(expect=sections(2))
def partial_locks_released(stage: Stage) -> None:
    """If a refused client releases the keys that it got, the next one gets the lock at once."""
    refused_with_two_nodes(stage)
