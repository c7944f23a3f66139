"""k of n: decided as early as possible, remembered, and never after the deadline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.shrink.trials import EnoughError, Tally, TrialOutcome, Trials, Try
from nemesis.schedule import Schedule
from tests.shrink.schedules import crash, schedule

ONE = schedule(crash("f1", 500), duration_ms=1_000)
TWO = schedule(crash("f1", 500), crash("f2", 700), duration_ms=2_000)


class Answers:
    """Plays with given outcomes, each of which takes its load plus three seconds."""

    def __init__(self, *outcomes: bool) -> None:
        self._outcomes: Iterator[bool] = iter(outcomes)
        self.now_s = 0.0
        self.plays = 0

    def __call__(self, schedule: Schedule, told: str) -> TrialOutcome:
        self.plays += 1
        self.now_s += schedule.duration_ms / 1e3 + 3
        return TrialOutcome(next(self._outcomes))

    def clock(self) -> float:
        return self.now_s


def try_all(trials: Trials) -> None:
    """Try more and more schedules."""
    for at_ms in range(100, 100_000, 100):
        trials.shows(schedule(crash("f1", at_ms), duration_ms=1_000))


@given(st.lists(st.booleans(), min_size=9, max_size=9), st.integers(1, 9), st.data())
def test_the_decision_equals_that_of_n_plays_and_no_play_is_wasted(
    outcomes: list[bool], repeats: int, data: st.DataObject
) -> None:
    needed = data.draw(st.integers(1, repeats))
    play = Answers(*outcomes)
    assert Trials(play, needed, repeats).shows(ONE) == (sum(outcomes[:repeats]) >= needed)
    short = outcomes[: play.plays - 1]
    assert sum(short) < needed
    assert len(short) - sum(short) <= repeats - needed


@pytest.mark.parametrize(
    ("outcomes", "seen"), [("tt", "2 of 2"), ("ff", "0 of 2"), ("tft", "2 of 3"), ("ftf", "1 of 3")]
)
def test_two_of_three_takes_two_plays_if_they_agree(outcomes: str, seen: str) -> None:
    trials = Trials(Answers(*(outcome == "t" for outcome in outcomes)), 2, 3)
    trials.shows(ONE)
    (line,) = trials.record
    assert str(Tally(line.seen, line.made)) == seen


def test_the_answer_for_a_schedule_is_remembered_but_a_confirmation_plays_it_again() -> None:
    play = Answers(True, True, False, False, True, True)
    trials = Trials(play, 2, 3)
    assert trials.shows(ONE)
    assert trials.shows(ONE)
    assert play.plays == 2
    assert trials.confirm(ONE) == Tally(0, 2)
    assert trials.confirm(ONE) == Tally(2, 2)
    assert trials.kept == [ONE]


def test_the_best_is_the_last_schedule_that_showed() -> None:
    told: list[Try] = []
    trials = Trials(Answers(True, False), 1, 1, told=told.append)
    trials.shows(TWO)
    trials.shows(ONE)
    assert trials.best == TWO
    assert [(line.faults, line.load_ms, line.kept) for line in told] == [
        (("f1", "f2"), 2_000, True),
        (("f1",), 1_000, False),
    ]


@given(st.floats(0, 60), st.integers(1, 4))
def test_no_play_starts_that_would_not_end_in_time(limit_s: float, needed: int) -> None:
    play = Answers(*[True, False] * 50)
    trials = Trials(play, needed, 4, ends_at=limit_s, clock=play.clock)
    with pytest.raises(EnoughError) as enough:
        try_all(trials)
    assert enough.value.reason == "time"
    assert play.now_s <= limit_s


def test_enough_time_is_reserved_to_confirm_the_best() -> None:
    play = Answers(*[True] * 50)
    trials = Trials(play, 1, 1, ends_at=60, clock=play.clock)
    assert trials.shows(schedule(crash("f1", 500), duration_ms=4_000))
    assert trials.shows(TWO)
    with pytest.raises(EnoughError):
        try_all(trials)
    assert trials.best is not None
    assert trials.confirm(trials.best) == Tally(1, 1)
