"""Keys that were told to live for longer than the lease time. TTL 1,000 ms; 2 % and 100 ms more are allowed."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import explain
from harness.checkers.overlong_keys import Figures, check
from harness.verdict import Answer, Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

NODES = ("n1", "n2", "n3")


def held(*ttls: int | None, **config: Any) -> History:
    """c1 is inside from 10 to 200; the nodes hold its key from 8 on, with these times to live when they were read."""
    history = History(**{"ttl_ms": 1_000} | config).watch(*NODES).section("c1", 10, 200, asked=5, deadline=900)
    history.sets("c1", "v1")
    for node, ttl in zip(NODES, ttls, strict=False):
        history.seen(node, "set", 8, "v1", ttl=ttl)
    for node in NODES[len(ttls) :]:
        history.seen(node, "set", 3, "other").seen(node, "deleted", 4)
    return history


def judged(history: History) -> Answer:
    for node in NODES:
        history.seen(node, "deleted", 201).seen(node, "blind", 900)
    return check(history.recorded())


def overlong(history: History) -> tuple[int, int]:
    figures: Any = judged(history).figures
    return figures.overlong, figures.sections


def test_a_run_that_nobody_watched_gives_no_answer() -> None:
    assert check(History().section("c1", 10, 50).recorded()) == Answer()


def test_keys_that_live_too_long_are_told_with_their_time(golden: Golden) -> None:
    answer = judged(held(1_500, 1_600, 1_400))
    assert answer.figures == Figures(sections=1, overlong=1, longest_ms=1_500)
    golden("\n".join([row.text for row in answer.figures.rows()]))
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "keys-outlast-lease",
        "lock",
        "liveness",
        1,
    )
    golden(finding.text)
    assert finding.examples == (
        {
            **{"client": "c1", "life": 1, "section": 1, "key": "k1"},
            **{"at_ms": 10, "ttl_ms": 1_500, "nodes": ("n1", "n2")},
        },
    )


def test_of_several_sections_the_one_whose_keys_live_longest_is_told() -> None:
    history = held(1_500, 1_500, 1_500)
    history.section("c2", 310, 400, asked=305, deadline=1_200).sets("c2", "v2")
    for node in NODES:
        history.seen(node, "deleted", 201).seen(node, "set", 308, "v2", ttl=1_700)
        history.seen(node, "deleted", 401).seen(node, "blind", 900)
    answer = check(history.recorded())
    assert answer.figures == Figures(sections=2, overlong=2, longest_ms=1_700)
    assert "of up to 1.7 s" in answer.findings[0].text
    assert [example["ttl_ms"] for example in answer.findings[0].examples] == [1_700, 1_500]


@pytest.mark.parametrize(("ttl", "found"), [(1_000, 0), (1_120, 0), (1_121, 1)])
def test_what_clocks_may_drift_is_allowed(ttl: int, found: int) -> None:
    assert overlong(held(ttl, ttl, ttl)) == (found, 1)


@pytest.mark.parametrize(
    ("ttls", "found"),
    [
        ((1_500, 1_500, 900), (1, 1)),
        ((1_500, 900, 900), (0, 1)),
        ((1_500, 900), (0, 1)),
        ((1_500, 1_500), (1, 1)),
        ((1_500,), (0, 0)),
        ((1_500, None, 1_500), (1, 1)),
        ((1_500, None, None), (0, 0)),
    ],
)
def test_what_counts_is_what_a_majority_was_told(ttls: tuple[int | None, ...], found: tuple[int, int]) -> None:
    assert overlong(held(*ttls)) == found


@pytest.mark.parametrize(
    ("at_first", "at", "then", "found"),
    [
        (990, 90, 1_900, (1, 1)),  # an extension
        (1_900, 90, 990, (1, 1)),  # an extension of keys that were too long-lived until then
        (1_900, 10, 990, (0, 1)),  # shortened as soon as all were there
        (None, 90, 990, (0, 1)),
    ],
)
def test_what_was_told_by_the_yes_and_last_counts(
    at_first: int | None, at: float, then: int, found: tuple[int, int]
) -> None:
    history = held(at_first, at_first, at_first)
    for node in NODES:
        history.seen(node, "prolonged", at + 30, "v1", ttl=then, since=at)
    assert overlong(history) == found


def test_a_lock_that_said_that_it_granted_more_may_set_more() -> None:
    history = held(1_900, 1_900, 1_900)
    history.op("c2", "acquire", "ok", 1, 300, 310, granted_ms=2_000.0)
    assert overlong(history) == (0, 1)


def test_keys_of_no_section_do_not_count() -> None:
    history = held(900, 900, 900)
    for node in NODES:
        history.seen(node, "set", 20, "theirs", key="another's", ttl=60_000)
        history.seen(node, "set", 202, "a refused attempt", ttl=60_000)
    assert overlong(history) == (0, 1)


def test_a_node_with_a_wrong_clock_may_say_anything() -> None:
    wrong = {"nemesis": "clock", "wrong_clocks": NODES[:2], "clock_off_ms": -1_000.0}
    assert overlong(held(1_500, 1_500, 1_500).fault("f1", 100, 150, **wrong)) == (0, 0)
    assert overlong(held(1_500, 1_500, 1_500).fault("f1", 100, 150, **wrong | {"wrong_clocks": NODES[:1]})) == (1, 1)
    assert overlong(held(1_500, 1_500, 1_500).fault("f1", 300, 350, **wrong)) == (1, 1), "the keys were gone before"


@pytest.mark.parametrize(
    ("by", "outcome", "was_marked_free", "number"),
    [("c2", "ok", False, 0), ("c2", "fail", False, 1), ("c1", "ok", False, 2), ("c2", "ok", True, 2)],
)
def test_keys_that_another_client_took_over_need_not_expire(
    by: str, outcome: str, was_marked_free: bool, number: int
) -> None:
    """The value tells when the lease is over: c2 takes the key at 1,209, while it is to live until 10,009."""
    history = History(ttl_ms=1_000).watch("n1").section("c1", 10, 200 if was_marked_free else None, asked=5)
    history.seen("n1", "set", 9, "v1", since=8, ttl=10_000).request("c1", "n1", "EVAL lock 1 k1 v1 1000", 8, 9)
    if was_marked_free:
        history.seen("n1", "set", 200.6, "free", since=200.4, ttl=10_000)
        history.request("c1", "n1", "EVAL unlock 1 k1 v1", 200.4, 200.6)
    else:
        history.end("c1", "killed", 200)
    history.op(by, "acquire", outcome, 2, 1_205, 1_210, life=2, deadline_ns=ms(2_200), validity_ms=990.0)
    history.seen("n1", "set", 1_209, "v2", since=1_208, ttl=10_000)
    history.request(by, "n1", "EVAL lock 1 k1 v2 1000", 1_208, 1_209).end(by, "killed", 1_250, life=2)
    history.seen("n1", "blind", 1_900)
    assert sum(finding.count for finding in check(history.recorded()).findings) == number


@pytest.mark.parametrize(("outcome", "number"), [("fail", 0), ("ok", 2)])
def test_a_hash_that_tells_who_waits_lives_for_longer(outcome: str, number: int) -> None:
    """Each field tells until when it counts. c2 has added its own when c1 is inside, and is refused then; c1 is let in
    once more on another key, for which nobody waits."""
    history = History(ttl_ms=1_000).watch("n1")
    for turn, key in enumerate(("k1", "k2")):
        at, seen = 500 * turn, f"{key}:seen"
        history.section("c1", at + 10, at + 200, asked=at + 5, number=turn + 1, key=key, deadline=at + 900)
        history.request("c1", "n1", f"HSET {seen} ticket{turn} 1000", at + 8, at + 9)
        history.seen("n1", "set", at + 9, f"ticket{turn}", since=at + 8, key=seen, is_hash=True, ttl=20_000)
        history.by(history.key_events[-1], len(history.requests) - 1)
        if key == "k1":
            history.op("c2", "acquire", outcome, 1, 50, 120, deadline_ns=ms(1_000), validity_ms=880.0)
            history.request("c2", "n1", f"HSET {seen} ticket9 400", 59, 60)
            value = "ticket0, ticket9"
            history.seen("n1", "set", 60, value, since=59, key=seen, is_hash=True, ttl=20_000)
            history.by(history.key_events[-1], len(history.requests) - 1)
        history.request("c1", "n1", f"DEL {seen}", at + 200.2, at + 200.4)
        history.seen("n1", "deleted", at + 200.4, since=at + 200.2, key=seen)
    assert sum(finding.count for finding in check(history.recorded()).findings) == number


@pytest.mark.parametrize(("ttl", "is_told"), [(1_900, True), (3_000, False)], ids=["a lease more", "much more"])
def test_a_renewal_that_adds_to_what_the_key_has_left_is_told(ttl: int, is_told: bool, golden: Golden) -> None:
    history = History(ttl_ms=1_000, nodes=1).watch("n1").section("c1", 10, 200, asked=5, deadline=900)
    history.sets("c1", "v1").request("c1", "n1", "SET k1 v1 NX PX 1000", 7, 8).seen("n1", "set", 8, "v1", ttl=1_000)
    history.op("c1", "extend", "ok", 1, 98, 102, validity_ms=990.0)
    history.request("c1", "n1", "EVAL renew 1 k1 v1", 99, 100, reply="1")
    run = history.seen("n1", "prolonged", 100, since=99, ttl=ttl).seen("n1", "blind", 900).recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert ("the key had left" in told.explanations[0].sentence) is is_told
    golden(told.explanations[0].sentence)
