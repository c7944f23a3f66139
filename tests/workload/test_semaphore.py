"""The workload semaphore as its readers see it."""

from __future__ import annotations

from fencepost.history import lock_key
from harness.checkers import checkers_of
from workloads.hold import Hold
from workloads.kinds import find_workload
from workloads.options import ClientOptions


def test_its_story_says_how_many_may_be_inside() -> None:
    options = ClientOptions(workload="semaphore", permits=3, hold=Hold("uniform", 2, 20))
    assert find_workload("semaphore").story(options) == (
        "It was used as a semaphore with 3 permits for each key. A client that acquired one stayed inside for 2 to 20 "
        "ms and gave it back."
    )


def test_it_is_judged_by_everybody_but_those_who_know_only_one_holder() -> None:
    missing = set(checkers_of("fenced-counter")) - set(checkers_of("semaphore"))
    assert missing == {"exclusion", "counter", "fencing", "starvation"}
    assert "capacity" in checkers_of("semaphore")
    assert "capacity" not in checkers_of("fenced-counter")


def test_a_slot_belongs_to_its_key() -> None:
    assert (lock_key("k1#2"), lock_key("k1")) == ("k1", "k1")
