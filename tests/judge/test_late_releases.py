"""Releases that had returned before they sent anything."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import spans_of, tell
from harness.checkers.judge import judge
from harness.explain.evidence import gather
from harness.explain.examples import case_of

from .histories import History
from .test_ledger import told

DELETE = "EVAL get-and-del 1 k1 a"
OBTAIN = "EVAL obtain 1 k1 a"


def late(outcome: str = "ok", *, is_sent: bool = False, words: str = DELETE, by: str = "c1") -> History:
    """Both tasks of c1 use the value a. c1@1's first release deletes the key within its call. Its second one returns at
    63, and a deletion follows at 70, after c1@2 has got in by the old key."""
    history = History(clients=2, ttl_ms=200, nodes=1, tasks=2).watch("n1")
    history.section("c1@1", 10, 30, deadline=200, asked=8).section("c1@1", 50, 62, number=2, deadline=240, asked=48)
    for at in (9, 49):
        history.request("c1", "n1", OBTAIN, at, at + 0.2, reply="1").seen("n1", "set", at + 0.1, "a", ttl=200)
        history.request("c1", "n1", DELETE, 30.3, 30.5, reply="1").seen("n1", "deleted", 30.4) if at == 9 else None
    if is_sent:
        history.request("c1", "n1", DELETE, 62.3, None, reply=None, did=False)
    if outcome == "ok":
        history.section("c1@2", 72, 120, deadline=260, asked=40)
    else:
        history.op("c1@2", "acquire", outcome, 1, 40, 72)
    history.request("c1", "n1", OBTAIN, 69, 69.6, reply="1").seen("n1", "prolonged", 69.5, "a", ttl=200)
    history.request(by, "n1", words, 70, 70.6, reply="1").seen("n1", "deleted", 70.5)
    return history


def last_deletion(history: History) -> Any:
    names = ("what", "task", "f", "section", "is_in_call")
    return [row[1:] for row in told(history, *names) if row[0] == "deleted"][-1]


def test_a_deletion_after_a_release_that_had_sent_nothing_is_that_releases() -> None:
    assert last_deletion(late()) == ("c1@1", "release", 2, False)


@pytest.mark.parametrize(
    "history",
    [
        late(is_sent=True),
        late(words="EVAL undo 1 k1 a"),
        late("fail"),
        late().request("c1", "n1", OBTAIN, 71, 71.2, reply="1").seen("n1", "set", 71.1, "a", ttl=200),
        late().op("c1@1", "release", "ok", 3, 66, 90),
    ],
    ids=[
        "it had sent one",
        "no release sends such words",
        "an acquire undid it",
        "an earlier round",
        "another release",
    ],
)
def test_what_another_call_can_have_sent_is_not_a_late_release(history: History) -> None:
    assert last_deletion(history)[1:3] != ("release", 2)


@pytest.mark.parametrize(("by", "is_its"), [("c1@1", True), ("c1", True), ("c1@2", False)])
def test_a_request_that_another_task_sent_is_not_the_releases(by: str, is_its: bool) -> None:
    assert (last_deletion(late(by=by))[1:3] == ("release", 2)) is is_its


def test_the_late_release_is_the_cause_of_the_overlap() -> None:
    history = late().section("c2", 80, 100, asked=75, deadline=275)
    history.request("c2", "n1", "EVAL obtain 1 k1 b", 76, 77, reply="1").seen("n1", "set", 76.5, "b", ttl=200)
    run = history.recorded()
    (finding,) = (finding for finding in judge(run).findings if finding.kind == "overlap")
    case = case_of(run, finding, finding.examples[0])
    assert finding.blame == "lock"
    assert tell(run, gather(run, spans_of(run, [case])), case).cause == "late release"
