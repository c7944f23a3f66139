from __future__ import annotations

from harness.checkers.judge import judge
from harness.scripts.expect import (
    capacity_exceeded,
    capacity_kept,
    failed_by,
    lost_updates,
    no_lost_updates,
    no_overlaps,
    no_overlaps_blamed_on,
    no_tokens_went_back,
    no_writes_refused,
    overlaps_blamed_on,
    sections,
    stale_writes_refused,
    tokens_went_back,
    waited_at_most,
    waited_longer_than,
)
from harness.scripts.experiment import experiment
from harness.scripts.play import ExpectationOutcome, judge_expectation
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.histories import History


def of(history: History) -> Verdict:
    return judge(history.recorded())


APART = History().section("c1", 0, 10).section("c2", 20, 30)
BY_THE_LOCK = History().section("c1", 0, 50).section("c2", 20, 60)
BY_THE_CLIENT = History().section("c1", 0, 500, deadline=100).section("c2", 120, 140)


def test_an_overlap_can_be_expected_with_its_blame() -> None:
    assert [overlaps_blamed_on("lock").holds(of(h)) for h in (APART, BY_THE_LOCK, BY_THE_CLIENT)] == [0, 1, 0]
    assert [no_overlaps_blamed_on("lock").holds(of(h)) for h in (APART, BY_THE_LOCK, BY_THE_CLIENT)] == [1, 0, 1]
    assert [no_overlaps().holds(of(h)) for h in (APART, BY_THE_LOCK, BY_THE_CLIENT)] == [1, 0, 0]


def test_the_part_of_the_lock_that_failed_can_be_expected() -> None:
    never_asked = History().section("c1", 10, 60, asked=5).section("c2", 30, 50, asked=25)
    never_asked.watch("n1", "n2", "n3").sets("c1", "v1").sets("c2", "v2").seen("n1", "set", 8, "v1", ttl=100)
    for node in ("n1", "n2", "n3"):
        never_asked.seen(node, "blind", 900)
    verdict = of(never_asked)
    assert [failed_by(part).holds(verdict) for part in ("library", "servers", "clock")] == [1, 0, 0]
    assert not failed_by("library").holds(of(APART))


def test_the_number_of_sections_can_be_expected() -> None:
    assert sections(2).holds(of(APART))
    assert not sections(1).holds(of(APART))


def test_how_long_clients_wait_can_be_expected() -> None:
    soon, late = (of(History().section("c1", start, 90, asked=0)) for start in (20, 60))
    assert [waited_at_most(40).holds(one) for one in (soon, late)] == [1, 0]
    assert [waited_longer_than(40).holds(one) for one in (soon, late)] == [0, 1]
    assert not waited_longer_than(0).holds(of(History()))


def test_one_section_is_called_one() -> None:
    assert (sections(1).says, sections(2).says) == ("1 section in all", "2 sections in all")


def test_combined_expectations_must_both_hold_and_both_are_named(golden: Golden) -> None:
    both = no_overlaps() & sections(2)
    golden(both.says)
    assert both.holds(of(APART))
    assert not both.holds(of(BY_THE_LOCK))
    assert not (no_overlaps() & sections(3)).holds(of(APART))


def test_lost_updates_and_fencing_can_be_expected() -> None:
    history = History().section("c1", 0, 50).section("c2", 20, 60).write("c1", 1).write("c2", 1)
    assert [lost_updates().holds(of(h)) for h in (APART, history)] == [0, 1]
    assert [no_lost_updates().holds(of(h)) for h in (APART, history)] == [1, 0]
    history.op("c1", "write", "fail", 1, 40, 41, value=1, stale=True)
    assert [stale_writes_refused().holds(of(h)) for h in (APART, history)] == [0, 1]
    assert [no_writes_refused().holds(of(h)) for h in (APART, history)] == [1, 0]


def test_the_order_of_the_tokens_can_be_expected() -> None:
    grows = History(fencing="writes").section("c1", 0, 10, token=1).section("c2", 20, 30, token=2)
    repeats = History(fencing="writes").section("c1", 0, 10, token=1).section("c2", 20, 30, token=1)
    assert [tokens_went_back().holds(of(h)) for h in (grows, repeats)] == [0, 1]
    assert [no_tokens_went_back().holds(of(h)) for h in (grows, repeats)] == [1, 0]


def test_the_number_of_holders_can_be_expected() -> None:
    def crowded(deadline: float) -> Verdict:
        history = History(workload="semaphore", permits=1).section("c1", 0, 50, deadline=deadline)
        return of(history.section("c2", 40, 60))

    apart = of(History(workload="semaphore", permits=1).section("c1", 0, 10).section("c2", 20, 30))
    by_the_lock, by_the_client = crowded(100), crowded(20)
    assert [capacity_exceeded().holds(one) for one in (apart, by_the_lock, by_the_client)] == [0, 1, 0]
    assert [capacity_kept(2).holds(one) for one in (apart, by_the_lock, by_the_client)] == [1, 0, 0]
    assert not capacity_kept(1).holds(apart)


def test_a_run_with_an_unknown_verdict_confirms_nothing() -> None:
    @experiment(expect=no_overlaps())
    def nothing_happens(stage: object) -> None:
        """Nothing."""

    assert judge_expectation(nothing_happens, of(History())) is ExpectationOutcome.UNKNOWN
    assert judge_expectation(nothing_happens, of(APART)) is ExpectationOutcome.HELD
    assert judge_expectation(nothing_happens, of(BY_THE_LOCK)) is ExpectationOutcome.FAILED


def test_an_expected_overlap_says_who_is_to_blame(golden: Golden) -> None:
    golden(overlaps_blamed_on("lock").says)
    golden(overlaps_blamed_on("undecided").says)
