"""A node's wall clock steps or drifts while it holds a key: what does the lock still hold?

The lock is held on n1, n2 and n3. A clock steps ahead by more than the TTL, and another client asks n3, n4 and n5.
A client's clock may step too: back by more than the TTL, during an acquire.
"""

from __future__ import annotations

from typing import Any, Final

from harness.scripts.expect import failed_by, no_overlaps, no_overlaps_blamed_on, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment
from harness.scripts.experiments.acquiring import pause_while_acquiring


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
    """The same step on a node that holds no key of the lock does no harm: the second client waits for the release."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    one.acquire("k1")
    stage.nodes("n4").step_clock("1.2ttl")
    two.sees("n3", "n4", "n5")
    two.acquire("k1")  # refused
    one.release()
    two.enter("k1")


def with_wrong_clocks(stage: Stage) -> None:
    """The clocks of three nodes are wrong from the beginning, each by another offset."""
    stage.nodes("n1").step_clock("2ttl")
    stage.nodes("n2").step_clock("-2ttl")
    stage.nodes("n3").step_clock("1.2ttl")


@experiment(clocks=True, expect=no_overlaps() & sections(2))
def clocks_that_are_wrong(stage: Stage) -> None:
    """Clocks with a constant offset do no harm while the lock is held: the second client waits for the release."""
    with_wrong_clocks(stage)
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    one.acquire("k1")
    two.sees("n3", "n4", "n5")
    two.acquire("k1")  # refused
    one.release()
    two.enter("k1")


@experiment(clocks=True, ttl_ms=2_000, expect=no_overlaps() & sections(2))
def clocks_that_are_wrong_and_a_death(stage: Stage) -> None:
    """With a constant offset, too, the lock of a dead holder comes free when its TTL is over."""
    with_wrong_clocks(stage)
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    one.kill()
    two.acquire("k1")  # refused
    stage.wait("1.2ttl")
    two.enter("k1")


def whole_lease(stage: Stage, percent: float) -> None:
    """The clocks of three nodes run fast, and the first client uses nearly all of its validity."""
    one, two = stage.clients("c1", "c2")
    stage.nodes("n1", "n2", "n3").drift_clock(percent)
    one.acquire("k1")
    stage.wait("0.95ttl")
    two.acquire("k1")


@experiment(clocks=True, ttl_ms=10_000, expect=overlaps_blamed_on("lock") & failed_by("clock"))
def drift_of_ten_percent(stage: Stage) -> None:
    """Keys on nodes whose clocks run fast by 10 % are gone before the validity is over, which allows for 1 %."""
    whole_lease(stage, 10)


@experiment(
    lock="redlock-wide-margin",
    clocks=True,
    ttl_ms=10_000,
    expect=no_overlaps_blamed_on("lock") & overlaps_blamed_on("client"),
)
def drift_of_ten_percent_allowed_for(stage: Stage) -> None:
    """A validity that allows for 10 % is over before the keys are gone: who is still inside then has no lease."""
    whole_lease(stage, 10)


@experiment(clocks=True, ttl_ms=10_000, expect=no_overlaps() & sections(1))
def drift_of_half_a_percent(stage: Stage) -> None:
    """Keys on nodes whose clocks run fast by half a percent outlast the validity."""
    whole_lease(stage, 0.5)


_PATIENT: Final[dict[str, Any]] = {"clocks": True, "ttl_ms": 2_000, "node_timeout_ms": 2_000}


@experiment(lock="control-wall-clock", expect=overlaps_blamed_on("lock"), **_PATIENT)
def client_clock_step_by_the_wall(stage: Stage) -> None:
    """A client that measures by the wall clock does not see the time that passed, and is granted a dead lease."""
    pause_while_acquiring(stage, clock_steps="-1.5ttl")


@experiment(expect=no_overlaps() & sections(1), **_PATIENT)
def client_clock_step(stage: Stage) -> None:
    """A client that measures by the monotonic clock sees the time that passed, and is refused."""
    pause_while_acquiring(stage, clock_steps="-1.5ttl")


@experiment(lock="control-wall-clock", expect=no_overlaps() & sections(1), **_PATIENT)
def client_clock_right_by_the_wall(stage: Stage) -> None:
    """A client that measures by the wall clock sees the time that passed, and is refused, if that clock is right."""
    pause_while_acquiring(stage)
