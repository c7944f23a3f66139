"""Acquires of a semaphore that take two places, and whose release gives back one. TTL 1 s."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.double_takes import Figures, check
from harness.checkers.explained import explain
from harness.verdict import Answer, Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms
from tests.judge.test_kept_places import change, inside

GONE = 900
"""When what stayed is taken out, since the acquire began."""


def doubles(
    *,
    times: int = 3,
    second: str = "b",
    heard: float = 0.6,
    gone: float = GONE,
    key: str = "k1",
    waits: bool = True,
    outcome: Any = "ok",
    **config: Any,
) -> History:
    """Every 2 s c1 puts `a` in, of which it hears so much later, and `second` 1 ms later; its release takes that one
    out at 21. c2 asks from 11 to 600."""
    history = History(**{"workload": "semaphore", "permits": 2, "nodes": 1, "ttl_ms": 1_000} | config).watch("n1")
    for number in range(1, times + 1):
        at = 2_000 * number
        inside(history, "c1", at + 10, at + 900, number)
        change(history, "c1", f"ZADD k1 1 a{number}", at + 8.2, event="set" if number == 1 else "changed", ttl=9_000)
        history.requests[-1]["to_client_ns"] = ms(at + 8.2 + heard)
        change(history, "c1", f"ZADD {key} 2 {second}{number}", at + 9.2, ttl=9_000)
        history.op("c1", "release", outcome, number, at + 20, at + 22)
        change(history, "c1", f"ZREM {key} {second}{number}", at + 21, ttl=9_000)
        if waits:
            history.op("c2", "acquire", "fail", number, at + 11, at + 600)
        change(history, "c2", f"ZREM k1 a{number}", at + gone, ttl=9_000)
    return history.seen("n1", "blind", 9_000)


def judged(history: History) -> Answer:
    return check(history.recorded())


def test_an_acquire_that_takes_two_places_leaves_one_behind(golden: Golden) -> None:
    history = doubles()
    answer = judged(history)
    assert answer.figures == Figures(3)
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("place-taken-twice", "lock", "liveness", 3)
    golden(finding.text)
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "counted twice"
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize(
    "how",
    [
        {"times": 2},
        {"second": "a"},
        {"heard": 0.95},
        {"gone": 270},
        {"key": "k1:other"},
        {"waits": False},
        {"outcome": "fail"},
        {"workload": "fenced-counter", "permits": 1},
    ],
    ids=[
        "twice only",
        "the same place again",
        "it did not know of the first one in time",
        "it was gone soon",
        "in another key",
        "no other client waited",
        "the release had failed",
        "it is no semaphore",
    ],
)
def test_it_took_no_second_place(how: Any) -> None:
    assert judged(doubles(**how)).findings == ()


def test_the_place_stays_for_longer_than_what_is_under_way() -> None:
    assert len(judged(doubles(gone=275)).findings) == 1
