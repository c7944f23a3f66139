"""A lock that was gone before its time, found out by its holder."""

from __future__ import annotations

import pytest

from harness.checkers.early_loss import check
from tests.judge.histories import History


def lost(released: float = 50, outcome: str = "fail") -> History:
    history = History().op("c1", "acquire", "ok", 1, 9, 10, validity_ms=90.0, deadline_ns=10**15 + 100_000_000)
    return history.op("c1", "release", outcome, 1, released - 1, released)


def count(history: History) -> object:
    return check(history.recorded()).figures.lost_early


def test_a_release_that_is_refused_within_the_validity_means_that_the_lock_was_lost() -> None:
    finding = check(lost().recorded()).findings[0]
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("lost-early", "lock", (), 1)
    assert finding.examples[0]["validity_left_ms"] == 50
    assert finding.examples[0]["at_ms"] == 50
    assert finding.text.startswith("1 lease was gone")


def test_every_lost_lease_counts() -> None:
    history = lost().section("c2", 20, None, deadline=100).op("c2", "release", "fail", 1, 60, 61)
    (finding,) = check(history.recorded()).findings
    assert (finding.count, finding.text.startswith("2 leases were gone")) == (2, True)


@pytest.mark.parametrize(("released", "times"), [(99.9, 1), (100, 0), (120, 0)])
def test_after_the_validity_it_is_as_it_should_be(released: float, times: int) -> None:
    assert count(lost(released)) == times


@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_only_a_definite_no_counts(outcome: str) -> None:
    assert count(lost(outcome=outcome)) == 0


@pytest.mark.parametrize(
    ("began", "healed", "times"), [(0, 8, 1), (0, 9, 0), (0, 20, 0), (30, 40, 0), (50, 60, 0), (51, 60, 1)]
)
def test_a_fault_that_may_have_been_in_force_excuses_it(began: float, healed: float, times: int) -> None:
    assert count(lost().fault("f1", began, healed, nodes=("n1",))) == times


def test_a_section_of_another_life_is_another_one() -> None:
    assert count(lost().op("c1", "acquire", "fail", 1, 200, 201, life=2)) == 1
