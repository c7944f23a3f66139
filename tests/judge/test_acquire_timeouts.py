"""Acquire calls that outlast what they were allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fencepost.history import ClientEnd
from harness.checkers.acquire_timeouts import SLACK_MS, Figures, check
from harness.history.heartbeats import Lags
from harness.history.standing_still import _waited
from harness.verdict import Answer
from tests.golden import Golden
from tests.judge.histories import History, ms


def judged(history: History, limit_ms: float | None = 100) -> Answer:
    history.acquire_limit_ms = limit_ms
    return check(history.recorded())


def tried(took: float, **config: Any) -> History:
    """One refused acquire that began at 10."""
    return History(**config).op("c1", "acquire", "fail", 1, 10, 10 + took)


@pytest.mark.parametrize(("took", "overruns"), [(100 + SLACK_MS, 0), (100 + SLACK_MS + 0.001, 1)])
def test_a_call_is_held_against_what_the_lock_declares_and_some_slack(took: float, overruns: int) -> None:
    answer = judged(tried(took, ttl_ms=5000))
    assert answer.figures.overruns == len(answer.findings) == overruns
    assert (answer.figures.declared, answer.figures.excused) == (True, 0)
    assert (answer.figures.limit_ms, answer.figures.longest_ms) == (100, pytest.approx(took))


def test_an_overrun_costs_liveness() -> None:
    (finding,) = judged(tried(500)).findings
    assert (finding.blame, finding.breaks, finding.count) == ("lock", "liveness", 1)
    assert finding.examples == ({"client": "c1", "section": 1, "at_ms": 10, "took_ms": 500, "stopped_ms": 0},)


def test_a_lock_that_declares_nothing_is_held_against_the_ttl_and_not_accused() -> None:
    answer = judged(tried(200 + SLACK_MS + 1, ttl_ms=200), None)
    assert answer.findings == ()
    assert answer.figures == Figures(200, declared=False, acquires=1, overruns=1, longest_ms=451, excused=0)


def test_the_time_for_which_the_client_was_stopped_is_not_counted() -> None:
    history = tried(1000).fault("f1", 200, 800, paused_clients=("c1",))
    answer = judged(history)  # stopped for 600 ms and 50 ms slow to come back
    assert answer.figures.longest_ms == 350
    assert (answer.figures.overruns, answer.figures.excused) == (0, 1)
    (finding,) = judged(tried(1001).fault("f1", 200, 800, paused_clients=("c1",))).findings
    assert finding.examples[0]["stopped_ms"] == 650


def judged_with_waits(history: History, *lives: Sequence[tuple[float, float, float]]) -> Figures:
    """With what is on record of how long c1 waited for a processor: from, until, and how much of it."""
    lags = [
        Lags("c1", np.zeros(0), 0, 0, 0, np.array([(ms(a), ms(b), round(c * 1e6)) for a, b, c in rows], np.int64))
        for rows in lives
    ]
    history.acquire_limit_ms = 100
    return check(replace(history.recorded(), lags=tuple(lags))).figures


@pytest.mark.parametrize(
    ("waits", "longest_ms"),
    [
        ([(0, 1000, 300), (1000, 2000, 0)], 1200 - 300),  # all of it can have been in the call
        ([(0, 110, 300), (110, 2000, 0)], 1200 - 100),  # no more than what the call has of that second
        ([(0, 700, 100), (700, 1100, 50), (1100, 2000, 30)], 1200 - 180),
        ([(0, 10, 10), (10, 1210, 0), (1210, 2000, 500)], 1200),  # before and after it
        ([(0, 1000, 0)], 1200 - 210),  # of the rest nobody knows
        ([(1000, 1100, 0)], 100),
        ([(1210, 2000, 0)], 0),
        ([(0, 5, 0)], 0),
    ],
)
def test_the_time_for_which_the_client_can_have_waited_for_a_processor_is_not_counted(
    waits: list[tuple[float, float, float]], longest_ms: float
) -> None:
    history = tried(1200).op("c2", "acquire", "fail", 1, 10, 12)
    figures = judged_with_waits(history, waits)
    assert figures.longest_ms == pytest.approx(max(2, longest_ms))
    assert (figures.overruns, figures.excused) == (int(longest_ms > 350), int(longest_ms <= 350))


def test_a_nanosecond_in_common_is_enough_to_be_sure_of_it() -> None:
    waits = np.array([(0, 10, 0), (10, 20, 0)], np.int64)
    assert _waited(np.array([0]), np.array([11]), waits).tolist() == [0]


def test_the_waits_of_all_lives_of_a_client_count() -> None:
    lives = [(1000, 2000, 100)], [(0, 1000, 200)]
    assert judged_with_waits(tried(1200), *lives).longest_ms == pytest.approx(1200 - 300)


def test_waiting_that_is_on_record_twice_counts_once_and_a_pause_besides() -> None:
    history = tried(1200).fault("f1", 200, 300, paused_clients=("c1",))
    history.kept_waiting = {"c1": [(ms(500), ms(600))]}
    assert judged_with_waits(history, [(0, 2000, 60)]).longest_ms == pytest.approx(1200 - 150 - 100)
    assert judged_with_waits(history, [(0, 2000, 130)]).longest_ms == pytest.approx(1200 - 150 - 130)


def test_no_more_is_taken_off_a_call_than_it_took() -> None:
    history = tried(200).fault("f1", 0, 100, paused_clients=("c1",))
    assert judged_with_waits(history, [(0, 2000, 500)]).longest_ms == 0


def test_a_pause_of_another_client_excuses_nobody() -> None:
    assert judged(tried(1000).fault("f1", 200, 800, paused_clients=("c2",))).figures.overruns == 1


def test_a_pause_counts_only_where_it_meets_the_call() -> None:
    history = History().op("c1", "acquire", "fail", 1, 300, 700).fault("f1", 100, 450, paused_clients=("c1",))
    history.fault("f2", 600, 900, paused_clients=("c1",)).fault("f3", 1000, 1100, paused_clients=("c1",))
    assert judged(history).figures.longest_ms == 400 - 200 - 100


def test_granted_and_refused_calls_count_and_nothing_else() -> None:
    history = History().section("c1", 510, 520, asked=10).op("c2", "release", "ok", 1, 10, 900)
    answer = judged(history.op("c2", "acquire", "info", 1, 10, 20))
    assert (answer.figures.acquires, answer.figures.overruns) == (2, 1)


def test_the_longest_is_shown_first() -> None:
    history = tried(400).op("c2", "acquire", "fail", 1, 10, 610).op("c2", "acquire", "fail", 1, 700, 800)
    (finding,) = judged(history).findings
    assert finding.count == 2
    assert finding.text.endswith("(100 ms), up to 600 ms")
    assert [example["took_ms"] for example in finding.examples] == [600, 400]
    assert judged(history).figures.longest_ms == 600


def test_without_any_call_there_is_nothing() -> None:
    assert judged(History()).figures.longest_ms is None


def cut_off(how: str = "cut-off", under_way: str | None = "acquiring", **config: Any) -> History:
    """Asked to end at 1100, and the harness waited until 5100."""
    history = History(**config)
    history.ends.append(ClientEnd("c1", 1, how, ms(5100), under_way))  # type: ignore[arg-type]
    return history


@pytest.mark.parametrize(("since", "limit_ms", "found"), [(4100, 1000, 1), (4100.1, 1000, 0), (4100, None, 1)])
def test_a_call_within_what_the_lock_allows_itself_may_still_end(
    since: float, limit_ms: float | None, found: int
) -> None:
    history = cut_off()
    history.ends[-1].since_ns = ms(since)
    assert len(judged(history, limit_ms).findings) == found


@pytest.mark.parametrize(("wait_ms", "found"), [(3900, 1), (3901, 0)])
def test_a_call_may_take_a_lease_longer_than_it_was_told_to_wait(wait_ms: float, found: int) -> None:
    history = cut_off(wait_ms=wait_ms)
    history.ends[-1].since_ns = ms(1100)
    assert len(check(history.recorded()).findings) == found


def test_a_call_that_is_still_under_way_when_everybody_was_asked_to_end_long_ago(golden: Golden) -> None:
    (finding,) = check(cut_off().recorded()).findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "acquire-never-ended",
        "lock",
        "liveness",
        1,
    )
    golden(finding.text)
    assert finding.examples == ({"client": "c1", "life": 1, "at_ms": 5100, "waited_ms": 4000},)


def test_who_was_killed_or_did_something_else_did_not_acquire_for_ever() -> None:
    assert check(cut_off("killed").recorded()).findings == ()
    assert check(cut_off(under_way="inside").recorded()).findings == ()


def test_a_fault_that_was_in_force_at_the_end_or_an_interrupted_run_excuses_the_lock() -> None:
    assert check(cut_off().fault("f", 900, 1100, nodes=("n1",)).recorded()).findings == ()
    assert len(check(cut_off().fault("f", 900, 1099.9, nodes=("n1",)).recorded()).findings) == 1
    interrupted = cut_off()
    interrupted.timeline.interrupted = True
    assert check(interrupted.recorded()).findings == ()
    broken_off = cut_off()
    broken_off.timeline.stop_ns = None
    assert check(broken_off.recorded()).findings == ()
    unhealed = cut_off()
    unhealed.timeline.healed_ns = None
    assert check(unhealed.recorded()).findings == ()


def test_calls_that_take_too_long_and_calls_that_never_end_are_two_findings() -> None:
    history = cut_off()
    history.acquire_limit_ms = 100.0
    history.op("c1", "acquire", "fail", 1, 0, 900)
    assert [f.kind for f in check(history.recorded()).findings] == ["acquire-overrun", "acquire-never-ended"]


def test_of_several_calls_that_never_ended_the_longest_is_told(golden: Golden) -> None:
    history = cut_off()
    history.ends.append(ClientEnd("c2", 1, "cut-off", ms(6100), "acquiring"))
    (finding,) = check(history.recorded()).findings
    golden(finding.text)
    assert [example["waited_ms"] for example in finding.examples] == [4000, 5000]
