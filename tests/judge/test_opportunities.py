from __future__ import annotations

from typing import Any

from harness.checkers.opportunities import Figures, check
from tests.golden import Golden
from tests.judge.histories import History


def crash(history: History, name: str, at: float, *keys: str) -> History:
    return history.fault(name, at, at + 2, nemesis="crash", nodes=("n1",), keys_at_stake=keys)


def figures(history: History) -> Any:
    return check(history.recorded()).figures


def test_a_run_in_which_no_node_went_down_has_no_figures() -> None:
    history = History().section("c1", 0, 10).fault("f1", 5, 8).fault("f2", 6, 9, nodes=("n1",), nemesis="pause")
    assert figures(history) is None


def test_only_a_crash_with_a_key_at_stake_is_an_opportunity() -> None:
    history = crash(crash(History().section("c1", 0, 10), "f1", 5, "k1"), "f2", 50)
    assert figures(history) == Figures(
        crashes=2, opportunities=1, violations=0, violated_opportunities=0, first_violation_ms=None
    )


def test_a_second_client_that_gets_in_after_the_crash_by_the_locks_fault_is_a_violation() -> None:
    found = figures(crash(History().section("c1", 0, 50).section("c2", 30, 60), "f1", 10, "k1"))
    assert (found.violations, found.violated_opportunities) == (1, 1)
    assert found.first_violation_ms == 30


def test_it_belongs_to_the_last_crash_before_the_second_client_got_in() -> None:
    history = History().section("c1", 0, 50).section("c2", 30, 60)
    found = figures(crash(crash(crash(history, "f1", 5, "k1"), "f2", 20, "k1"), "f3", 40, "k1"))
    assert (found.crashes, found.violations) == (3, 1)


def test_a_crash_before_the_first_client_asked_cannot_have_caused_it() -> None:
    found = figures(crash(History().section("c1", 20, 50, asked=15).section("c2", 30, 60), "f1", 5, "k1"))
    assert found.violations == 0
    assert found.first_violation_ms == 30


def test_a_request_that_a_node_granted_while_it_went_down_counts() -> None:
    for asked in (5.5, 6):  # it is down at 6
        found = figures(crash(History().section("c1", 20, 50, asked=asked).section("c2", 30, 60), "f1", 5, "k1"))
        assert (found.violations, found.violated_opportunities) == (1, 1)


def test_a_crash_in_the_moment_in_which_the_second_client_gets_in_comes_too_late() -> None:
    found = figures(crash(History().section("c1", 0, 50).section("c2", 30, 60), "f1", 30, "k1"))
    assert (found.violations, found.first_violation_ms) == (0, 30)


def test_the_first_of_several_violations_is_told() -> None:
    history = History().section("c1", 0, 50).section("c2", 30, 60)
    history.section("c1", 200, 250, number=2).section("c2", 230, 260, number=2)
    assert figures(crash(history, "f1", 10, "k1")).first_violation_ms == 30


def test_a_violation_of_another_key_than_those_at_stake_counts_for_the_crash_alone() -> None:
    found = figures(crash(History().section("c1", 0, 50).section("c2", 30, 60), "f1", 10, "k2"))
    assert (found.violations, found.violated_opportunities) == (1, 0)


def test_an_overlap_by_the_clients_fault_is_no_violation() -> None:
    found = figures(crash(History().section("c1", 0, 500, deadline=100).section("c2", 120, 140), "f1", 110, "k1"))
    assert found.violations == 0


def test_a_hunt_that_never_struck_leaves_the_verdict_unknown(golden: Golden) -> None:
    history = History().section("c1", 0, 10).fault("f1", 0, 90, nemesis="hunt")
    golden("\n".join(check(history.recorded()).unknown))
    assert check(crash(history, "f1.2", 5, "k1").recorded()).unknown == ()
