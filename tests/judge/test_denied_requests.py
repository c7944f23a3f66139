"""Requests that the servers turned away: named, and no lock is blamed for having had no access."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fencepost.history import Denied
from harness.checkers import denied_requests, liveness, starvation
from harness.checkers.judge import judge
from harness.history.recorded import Recorded
from tests.judge.histories import History, ms


def refused(*, after: float | None = None) -> History:
    """A client that tries in vain from 10 ms on until the end, once in 100 ms, perhaps after a section at `after`."""
    history = History(nodes=3)
    if after is not None:
        history.section("c1", after, after + 1)
    for number in range(60):
        history.op("c2", "acquire", "fail", 1, 10 + 100 * number, 109 + 100 * number)
    history.timeline.stop_ns = history.timeline.end_ns = ms(6_000)
    return history


def denied(history: History, **errors: int) -> Recorded:
    return replace(history.recorded(), denied=tuple(Denied("n1", error, times) for error, times in errors.items()))


def test_a_run_without_access_is_unknown_and_says_what_to_do() -> None:
    run = denied(refused(), NOAUTH=1_204)
    told = "the servers answered the lock with NOAUTH 1,204 times: it must log in as the default user with the password"
    verdict = judge(run)
    assert verdict.verdict == "unknown"
    assert any(reason.startswith(told) for reason in verdict.unknown)
    (row,) = denied_requests.check(run).figures.rows()  # type: ignore[union-attr]
    assert row.text.startswith(told)


@pytest.mark.parametrize("check", [starvation.check, liveness.check])
def test_a_lock_without_access_is_not_blamed_for_letting_nobody_in(check) -> None:  # type: ignore[no-untyped-def]
    assert {found.blame for found in check(denied(refused(), NOPERM=7)).findings} == {"undecided"}
    assert any(
        "n1 turned requests away" in found.text for found in starvation.check(denied(refused(), NOPERM=7)).findings
    )


def test_requests_that_were_turned_away_do_not_matter_where_somebody_got_in() -> None:
    answer = denied_requests.check(denied(refused(after=5), NOAUTH=3))
    assert answer.unknown == ()
    assert answer.figures == denied_requests.Figures({"NOAUTH": 3})


def test_all_nodes_and_errors_are_counted_the_most_frequent_first() -> None:
    told = (Denied("n1", "WRONGPASS", 2), Denied("n1", "NOPERM", 4), Denied("n2", "NOPERM", 1))
    figures = denied_requests.check(replace(refused().recorded(), denied=told)).figures
    assert figures == denied_requests.Figures({"NOPERM": 5, "WRONGPASS": 2})


def test_where_nothing_was_turned_away_nothing_is_said() -> None:
    assert denied_requests.check(refused().recorded()).figures is None
