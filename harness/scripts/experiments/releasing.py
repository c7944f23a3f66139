"""What a release deletes: the client's own key, the next holder's, or too few."""

from __future__ import annotations

from harness.scripts.expect import no_overlaps, no_overlaps_blamed_on, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment
from harness.scripts.experiments.one_node import late_release
from nemesis.clock import WrongClock


def held_up_while_releasing(stage: Stage) -> None:
    """The first client releases in time, and the first reply to it is held until the lease is over and the second
    client holds the lock. Then a third one asks for it."""
    one, two, three = stage.clients("c1", "c2", "c3")
    one.acquire("k1")
    stage.wait("0.5ttl")  # it waits for a reply for one TTL at most
    one.hold_replies("n1")
    released = one.begin("release")
    stage.wait("0.6ttl")
    two.acquire("k1")
    one.let_go()
    released()
    three.acquire("k1")


@experiment(
    lock="workloads.mutants:ComparesThenFrees",
    nodes=1,
    clients=3,
    ttl_ms=2_000,
    node_timeout_ms=2_000,
    expect=overlaps_blamed_on("lock"),
)
def release_by_get_and_del(stage: Stage) -> None:
    """A client that is held up between GET and DEL deletes the next holder's key, and a third client enters beside
    that one."""
    held_up_while_releasing(stage)


@experiment(
    lock="set-nx-px",
    nodes=1,
    clients=3,
    ttl_ms=2_000,
    node_timeout_ms=2_000,
    expect=no_overlaps_blamed_on("lock") & sections(2),
)
def release_by_script_held_up(stage: Stage) -> None:
    """A script compares and deletes at once: it is over when the client is held up, and the third client is refused."""
    held_up_while_releasing(stage)


@experiment(
    lock="workloads.cheap_values:FixedValue", nodes=1, clients=3, ttl_ms=2_000, expect=overlaps_blamed_on("lock")
)
def release_of_a_fixed_value(stage: Stage) -> None:
    """If all clients set the same value, a release that comes late finds it in the next holder's key and deletes that,
    and a third client enters beside that holder."""
    late_release(stage)


@experiment(
    lock="workloads.cheap_values:TimeAndName",
    nodes=1,
    clients=3,
    ttl_ms=2_000,
    expect=no_overlaps_blamed_on("lock") & sections(2),
)
def release_of_time_and_name(stage: Stage) -> None:
    """A release that compares the time and the client's name leaves the next holder's key alone."""
    late_release(stage)


def beside_another_task(stage: Stage) -> None:
    """The holder's process has another task, which asks for the same lock again and again. So does the second client,
    for a while."""
    one, two = stage.clients("c1", "c2")
    one.enter("k1", within="0.2ttl")
    two.enter("k1", within="0.1ttl")


@experiment(
    lock="workloads.cheap_values:TimeAndNameOfTwoTasks", nodes=1, clocks=True, expect=overlaps_blamed_on("lock")
)
def two_tasks_at_the_same_time(stage: Stage) -> None:
    """While the clock of a client stands still, its tasks set the same value: the refused attempt of one of them
    deletes the key of the other, and another client enters beside that one."""
    stage.inject("clock", WrongClock(rate_percent=-100, clients=("c1",)))
    beside_another_task(stage)


@experiment(
    lock="workloads.cheap_values:TimeAndNameOfTwoTasks", nodes=1, clocks=True, expect=no_overlaps() & sections(1)
)
def two_tasks_one_after_the_other(stage: Stage) -> None:
    """While the clock of a client moves on, a task that asks later sets another value, and the lock is kept."""
    beside_another_task(stage)


def with_lost_replies(stage: Stage) -> None:
    """The first client hears of n1, n2 and n3 only, but n4 and n5 have set the key, too. It releases, and the second
    client asks n3, n4 and n5."""
    one, two = stage.clients("c1", "c2")
    two.acquire("k2")  # the lock works
    two.release()
    one.hold_replies("n4", "n5")
    one.acquire("k1")
    stage.nodes("n4", "n5").hold("k1")
    one.let_go()
    one.release()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")


@experiment(lock="workloads.mutants:FreesAMajority", expect=no_overlaps() & sections(2))
def release_where_a_yes_came_from(stage: Stage) -> None:
    """A release on the three nodes that are known to hold the lock leaves its keys on the other two, which refuse the
    next client."""
    with_lost_replies(stage)


@experiment(expect=no_overlaps() & sections(3))
def release_on_all_nodes(stage: Stage) -> None:
    """A release on all nodes also deletes the keys of which the client never heard, and the next client gets in."""
    with_lost_replies(stage)
