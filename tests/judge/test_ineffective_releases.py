"""Releases that were answered with yes and left the keys where they were. A key may stay for 250 ms."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import explain
from harness.checkers.ineffective_releases import Figures, check
from harness.verdict import Answer, Verdict
from tests.golden import Golden
from tests.judge.histories import History

NODES = ("n1", "n2", "n3")


def released(*stay: float | None, outcome: str = "ok", ttl: int = 2_000, nodes: int = 3) -> History:
    """c1 was inside from 10 to 50, and its release was answered at 60; each node held its key until then."""
    names = tuple(f"n{place}" for place in range(1, nodes + 1))
    history = History(nodes=nodes).watch(*names).section("c1", 10, None, asked=5).sets("c1", "v1")
    history.op("c1", "release", outcome, 1, 50, 60)
    for node, until in zip(names, stay, strict=False):
        if until is not None:
            history.seen(node, "set", 8, "v1", ttl=ttl).seen(node, "deleted", until)
    for node in names[len(stay) :]:
        history.seen(node, "set", 3, "other")
    return history


def found(history: History, *, is_wanted: bool = True) -> Any:
    history = history.wanted() if is_wanted else history
    for node in history.config.node_names:
        history.seen(node, "blind", 5_000)
    return check(history.recorded())


def longest(history: History) -> list[float]:
    answer = found(history)
    assert all((f.kind, f.blame, f.breaks) == ("release-without-effect", "lock", "liveness") for f in answer.findings)
    assert sum(f.count for f in answer.findings) == answer.figures.ineffective
    return [answer.figures.longest_ms] if answer.figures.ineffective else []


def test_a_run_that_nobody_watched_gives_no_answer() -> None:
    assert check(History().section("c1", 10, 50).recorded()) == Answer()


def test_keys_that_go_with_the_release() -> None:
    assert found(released(55, 58, 61)).figures == Figures(releases=1, ineffective=0, longest_ms=0)


def test_keys_that_stay_on_a_majority_keep_everybody_out(golden: Golden) -> None:
    answer = found(released(900, 800, 61))
    golden(answer.findings[0].text)
    assert answer.findings[0].examples == (
        {
            "client": "c1",
            "life": 1,
            "section": 1,
            "key": "k1",
            "at_ms": 60,
            "for_ms": 740,
            "nodes": ("n1", "n2"),
            "set_again": False,
            "is_unsent": True,
        },
    )


@pytest.mark.parametrize(("stay", "for_ms"), [((310, 310), []), ((310.1, 400), [250.1]), ((900, 61, 61), [])])
def test_a_minority_or_a_short_while_keeps_nobody_out(stay: tuple[float, ...], for_ms: list[float]) -> None:
    assert longest(released(*stay)) == pytest.approx(for_ms)


def test_of_four_nodes_two_that_are_taken_leave_no_majority() -> None:
    assert longest(released(900, 700, 61, 61, nodes=4)) == [640]
    assert longest(released(900, 61, 61, 61, nodes=4)) == []


def test_three_that_stay_keep_everybody_out_until_the_second_goes() -> None:
    assert longest(released(900, 800, 700)) == [740]


def test_keys_count_no_longer_than_they_live() -> None:
    assert longest(released(900, 900, ttl=400)) == [348]
    assert longest(released(900, 900, ttl=300)) == []


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_a_release_that_was_not_answered_with_yes_promised_nothing(outcome: str) -> None:
    assert longest(released(900, 900, outcome=outcome)) == []


def test_a_set_that_the_release_had_overtaken() -> None:
    history = released(55, 55)
    for node in NODES[:2]:
        history.seen(node, "set", 70, "v1", ttl=2_000).seen(node, "deleted", 900)
    assert longest(history) == [840]
    example = found(history).findings[0].examples[0]
    assert example["set_again"] is True
    assert "is_unsent" not in example
    history = released(55, 55)
    for node in NODES[:2]:
        history.seen(node, "set", 70, "v1", ttl=2_000).seen(node, "deleted", 319)
    assert longest(history) == []


@pytest.mark.parametrize(("since", "is_later"), [(49.9, False), (50, False), (50.1, True)])
def test_one_set_that_certainly_came_later_is_enough_to_say_so(since: float, is_later: bool) -> None:
    history = released(45, 900).seen("n1", "set", 51, "v1", since=since, ttl=2_000).seen("n1", "deleted", 900)
    assert found(history).findings[0].examples[0]["set_again"] is is_later


@pytest.mark.parametrize(
    "hit",
    [
        {"nodes": ("n1",)},
        {"cut_links": (("c1", "n1"),)},
        {"slow_links": (("c1", "n1"),)},
        {"paused_clients": ("c1",)},
        {"killed_clients": ("c1",)},
    ],
)
def test_a_node_that_a_fault_may_have_kept_from_the_release_does_not_count(hit: dict[str, Any]) -> None:
    assert longest(released(900, 900).fault("f", 20, 55, **hit)) == []
    assert longest(released(900, 900).fault("f", -300, -200.1, **hit)) == [840], "what was under way has arrived"
    assert longest(released(900, 900).fault("f", -300, -200, **hit)) == []
    assert longest(released(900, 900).fault("f", 310.1, 950, **hit)) == [840]
    assert longest(released(900, 900).fault("f", 310, 950, **hit)) == []


@pytest.mark.parametrize(
    ("answered", "reply", "number"),
    [(53, "0", 1), (None, None, 0), (53, '{"error":"OOM"}', 0), (61, "0", 0)],
    ids=["carried out", "no answer", "an error", "not by the end of the release"],
)
def test_what_the_release_asked_and_the_node_carried_out_no_fault_can_have_kept_away(
    answered: float | None, reply: str | None, number: int
) -> None:
    history = released(900, 800, 61)
    history.request("c1", "n1", "EVAL free 1 k1 v1", 52, 53, reply="0", did=False)
    history.request("c1", "n2", "EVAL free 1 k1 v1", 52, answered, reply=reply, did=False)
    history.request("c1", "n2", "SET k1 v2 NX", 52, 53, reply="null", did=False)  # perhaps of another task
    history.fault("f1", 20, 70, slow_links=(("c1", "n1"), ("c1", "n2")))
    assert len(longest(history)) == number


def test_a_lock_that_counts_may_still_be_held_after_a_call_that_failed() -> None:
    history = released(900, 800, 61).op("c1", "leave", "info", 1, 20, 25)
    for node in ("n1", "n2"):
        history.request("c1", node, "EVAL free 1 k1 v1", 52, 53, reply="0", did=False)
    assert not longest(history.fault("f1", 20, 70, slow_links=(("c1", "n1"), ("c1", "n2"))))


def test_a_fault_of_somebody_else_is_no_excuse() -> None:
    history = released(900, 900).fault("f", 20, 55, cut_links=(("c2", "n1"), ("c1", "n3")), paused_clients=("c2",))
    assert longest(history) == [840]


def test_the_longest_is_shown_with_the_first_ones() -> None:
    history = History().watch(*NODES)
    for number, stays in enumerate((300, 310, 320, 310, 400, 320), 1):
        at = 500 * number
        history.section("c1", at, at + 10, number=number).sets("c1", f"v{number}", number=number)
        for node in NODES:
            history.seen(node, "set", at, f"v{number}", ttl=2_000).seen(node, "deleted", at + 11 + stays)
    answer = found(history)
    (finding,) = answer.findings
    assert (finding.count, [example["section"] for example in finding.examples]) == (6, [1, 2, 3, 5])
    assert answer.figures.longest_ms == 400


@pytest.mark.parametrize(("ttl", "ineffective"), [(700, 0), (2_000, 1)])
def test_a_release_may_let_the_keys_expire_a_little_later(ttl: int, ineffective: int) -> None:
    """Without it they would live until 2,008."""
    history = History(nodes=1).watch("n1").section("c1", 10, 50, asked=5).sets("c1", "v1")
    history.seen("n1", "set", 8, "v1", ttl=2_000).seen("n1", "prolonged", 50.4, "v1", since=50.1, ttl=ttl, read=51)
    history.request("c1", "n1", "EVAL leave 1 k1 v1", 50.2, 50.4)
    assert found(history.seen("n1", "expired", 50 + ttl)).figures.ineffective == ineffective


def test_a_key_that_a_lock_calls_by_another_name_keeps_them_out_too() -> None:
    def of(key: str, asked: str) -> float:
        history = History(nodes=1).watch("n1").section("c1", 10, None, asked=5).sets("c1", "v1")
        history.op("c1", "release", "ok", 1, 50, 60)
        history.request("c1", "n1", f"SET {key} v1 NX PX 2000", 7, 8).seen("n1", "set", 8, "v1", ttl=2_000, key=key)
        history.seen("n1", "deleted", 800, key=key).op("c2", "acquire", "fail", 1, 100, 700)
        history.request("c2", "n1", f"SET {asked} v2 NX PX 2000", 110, 111, reply="null", did=False)
        return float(found(history, is_wanted=False).figures.ineffective)

    assert of("k1", "k1") == of("lock:5f0c", "lock:5f0c") == 1
    assert of("lock:5f0c", "lock:77aa") == 0


@pytest.mark.parametrize(("since", "until", "number"), [(500, 600, 1), (560, 600, 0), (20, 40, 0), (20, 90, 1)])
def test_a_lock_that_is_given_back_when_it_is_asked_for_keeps_nobody_out(
    since: float, until: float, number: int
) -> None:
    """c1 keeps it until 800, and is asked for it then, or never."""
    history = released(800, 800, 800).wanted(since, until)
    assert found(history, is_wanted=False).figures.ineffective == number


@pytest.mark.parametrize(
    ("words", "at", "cause"),
    [
        (None, 0, "unsent release"),
        ("DEL k1", 55, "stayed"),
        ("EVALSHA f00 1 k1 v1", 300, "stayed"),
        ("EVALSHA f00 1 k1 v2", 300, "unsent release"),
        ("DEL k2", 55, "unsent release"),
        ("EVALSHA f00 1 k2 v1", 55, "unsent release"),
        ("PUBLISH free v1", 55, "stayed"),
    ],
)
def test_a_release_that_sent_nothing(words: str | None, at: float, cause: str, golden: Golden) -> None:
    history = released(900, 800, 900)
    for node in NODES:
        history.request("c1", node, "GET k1", 6, 6.5, did=False).request("c1", node, "SET k1 v1 NX PX 2000", 7, 9)
        if words is not None:
            history.request("c1", node, words, at, at + 1, reply="0", did=False)
    (finding,) = found(history).findings
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == cause
    if words is None:
        golden(told.explanations[0].sentence)


@pytest.mark.parametrize(("arrived", "is_later"), [(49.9, False), (50.1, True)])
def test_a_set_is_no_earlier_than_its_request(arrived: float, is_later: bool) -> None:
    """The witness knows only that it was between 45 and 51."""
    history = released(45, 900).seen("n1", "set", 51, "v1", since=45, ttl=2_000)
    history.request("c1", "n1", "SET k1 v1 PX 2000", arrived, 51, sent=arrived).seen("n1", "deleted", 900)
    assert found(history).findings[0].examples[0]["set_again"] is is_later


@pytest.mark.parametrize(("times", "lowers", "cause"), [(2, 1, "counted twice"), (1, 1, "stayed"), (2, 2, "stayed")])
def test_an_acquire_that_was_sent_again_was_counted_twice(times: int, lowers: int, cause: str, golden: Golden) -> None:
    """The key is a hash of the client and its count; the release lowers that, and leaves the key."""
    history = History(nodes=1, ttl_ms=2_000).watch("n1").section("c1", 10, None, asked=1)
    history.op("c1", "release", "ok", 1, 50, 60)
    changes = [(3 + 2 * number, 1) for number in range(times)] + [(51 + 2 * number, -1) for number in range(lowers)]
    for number, (at, by) in enumerate(changes):
        history.request("c1", "n1", f"HINCRBY k1 holder-c1 {by}", at, at + 1, reply="1")
        history.seen("n1", "changed" if number else "set", at + 0.5, "holder-c1", since=at, ttl=2_000, is_hash=True)
    history.seen("n1", "deleted", 900)
    answer = found(history)
    (told,) = explain(history.recorded(), Verdict("violation", "lock", answer.findings, (), {}), 1)
    assert told.explanations[0].cause == cause
    golden(told.explanations[0].sentence)
