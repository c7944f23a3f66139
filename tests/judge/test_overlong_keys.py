"""Keys that were told to live for longer than the lease time. TTL 1,000 ms; 2 % and 100 ms more are allowed."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.overlong_keys import Figures, check
from harness.verdict import Answer
from tests.judge.histories import History


def held(ttl: int | None, value: str | None = "v1", event: str = "set", **config: Any) -> History:
    """c1 is inside from 10 to 200; n1 holds its key, with this time to live when it was read."""
    history = History(**{"ttl_ms": 1_000} | config).watch("n1").section("c1", 10, 200, asked=5, deadline=900)
    history.shows("c1", "v1").seen("n1", event, 8, value, ttl=ttl)
    return history.seen("n1", "deleted", 201)


def overlong(history: History) -> tuple[int, int]:
    figures: Any = check(history.seen("n1", "blind", 900).recorded()).figures
    return figures.overlong, figures.keys


def test_a_run_that_nobody_watched_gives_no_answer() -> None:
    assert check(History().section("c1", 10, 50).recorded()) == Answer()


def test_a_key_that_lives_too_long_is_told_with_its_time() -> None:
    answer = check(held(1_500).seen("n1", "blind", 900).recorded())
    assert answer.figures == Figures(keys=1, overlong=1, longest_ms=1_500)
    assert [row.text for row in answer.figures.rows()] == [
        "1 of 1 key told to live for longer than the lock was asked for, up to 1.5 s"
    ]
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "keys-outlast-lease",
        "lock",
        ("liveness",),
        1,
    )
    assert finding.text == ("the lock told 1 of 1 key to live for up to 1.5 s, although it was asked for 1 s")
    assert finding.examples == ({"node": "n1", "key": "k1", "by": "c1", "at_ms": 8, "ttl_ms": 1_500},)


@pytest.mark.parametrize(("ttl", "found"), [(1_000, 0), (1_120, 0), (1_121, 1)])
def test_what_clocks_may_drift_is_allowed(ttl: int, found: int) -> None:
    assert overlong(held(ttl)) == (found, 1)


def test_a_key_that_is_prolonged_counts_as_one_set_so() -> None:
    history = held(990)
    history.key_events.pop()
    history.seen("n1", "prolonged", 50, "v1", ttl=1_900).seen("n1", "prolonged", 90, "v1", ttl=1_000)
    assert overlong(history.seen("n1", "deleted", 201)) == (1, 1)


def test_a_lock_that_said_that_it_granted_more_may_set_more() -> None:
    history = held(1_900)
    history.op("c2", "acquire", "ok", 1, 300, 310, granted_ms=2_000.0)
    assert overlong(history) == (0, 1)


def test_what_was_not_read_is_not_known() -> None:
    assert overlong(held(None)) == (0, 0)
    assert overlong(held(1_500, value=None)) == (0, 0)


def test_the_keys_of_others_do_not_count() -> None:
    history = held(900).seen("n1", "set", 20, "theirs", key="another's", ttl=60_000)
    assert overlong(history) == (0, 1)


def test_a_node_with_a_wrong_clock_may_say_anything() -> None:
    wrong = {"nemesis": "clock", "wrong_clocks": ("n1",), "clock_off_ms": -1_000.0}
    assert overlong(held(1_500).fault("f1", 100, 150, **wrong)) == (0, 0)
    assert overlong(held(1_500).fault("f1", 100, 150, **wrong | {"wrong_clocks": ("n2",)})) == (1, 1)
    assert overlong(held(1_500).fault("f1", 300, 350, **wrong)) == (1, 1), "the key was gone before"
