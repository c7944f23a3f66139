"""Releases that name another key than the one that their acquire had set."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import ineffective_releases, undeleted_keys
from harness.checkers.explained import explain
from harness.explain.another_key import Use, another_key
from harness.explain.causes import Cause
from harness.verdict import Answer, Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

NODES = ("n1", "n2", "n3")
FREE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def released(
    *asked: str, on: tuple[str, ...] = NODES, reply: str | None = "0", outcome: str = "ok", script: str | None = FREE
) -> History:
    """Every 1,000 ms c1 is let in at 10 by lock:k1, and its release asks these nodes for this until 60. The keys
    expire."""
    history = History(ttl_ms=900).watch(*NODES)
    history.scripts = {} if script is None else {"899b": script}
    for number, at in enumerate((0, 1_000, 2_000), 1):
        value = f"value-of-{number}"
        history.section("c1", at + 10, None, number=number, asked=at + 5)
        history.op("c1", "release", outcome, number, at + 50, at + 60)
        for node in NODES:
            history.request("c1", node, f"SET lock:k1 {value} NX PX 900", at + 7, at + 8)
            history.seen(node, "set", at + 8, value, since=at + 7, ttl=900, key="lock:k1")
            for words in asked if node in on else ():
                history.request("c1", node, words.replace("$", value), at + 52, at + 53, reply=reply, did=False)
            history.seen(node, "expired", at + 908, since=at + 907, key="lock:k1")
    return history


def named(history: History, **more: Any) -> str | None:
    """By the first release."""
    use = {"client": "c1", "key": "k1", "name": "lock:k1", "value": "value-of-1"}
    times = {"asked_ns": ms(5), "start_ns": ms(10), "left_ns": ms(50), "done_ns": ms(60)}
    found = another_key(history.recorded(), Use(**use | times | more))
    return None if found is None else found.in_words()


@pytest.mark.parametrize("asked", [("EVALSHA 899b 1 k1 $",), ("PING", "EVALSHA 899b 1 k1 $")])
def test_the_release_compares_the_value_with_another_key(asked: tuple[str, ...], golden: Golden) -> None:
    golden(str(named(released(*asked))))


@pytest.mark.parametrize(
    "asked",
    [
        ("EVALSHA 899b 1 lock:k1 $",),
        ("EVALSHA 899b 1 k1 $", "DEL lock:k1"),
        ("EVALSHA 899b 1 k1 $ lock:k1",),
        ("EVALSHA 899b 1 k1 another-value",),
        ("EVALSHA 777a 1 k1 $",),  # its text is not on record
        ("FCALL free 1 k1 $",),
        ("DEL k1",),
        ("PING",),
        (),
    ],
)
def test_it_may_have_named_the_key_or_did_not_name_the_value(asked: tuple[str, ...]) -> None:
    assert named(released(*asked)) is None


def test_a_script_may_put_the_name_together() -> None:
    assert named(released("EVALSHA 899b 1 k1 $", script="return redis.call('del', 'lock:' .. KEYS[1])")) is None
    assert named(released("EVALSHA 899b 1 k1 $", script=None)) is None


@pytest.mark.parametrize("reply", [None, '{"error":"NOSCRIPT No matching script."}', '{"error":"OOM"}'])
def test_a_release_that_was_not_carried_out_may_have_failed_for_that(reply: str | None) -> None:
    assert named(released("EVALSHA 899b 1 k1 $", reply=reply)) is None


@pytest.mark.parametrize(("on", "is_found"), [(NODES[:2], True), (NODES[:1], False)])
def test_it_is_so_on_a_majority_of_the_nodes(on: tuple[str, ...], is_found: bool) -> None:
    assert (named(released("EVALSHA 899b 1 k1 $", on=on)) is not None) == is_found


def test_a_key_that_the_acquire_had_named_as_well_is_one_of_the_lock() -> None:
    history = released("EVALSHA 899b 1 k1 $")
    for node in NODES:
        history.request("c1", node, "INCR k1", 8.5, 8.6, reply="1", did=False)
    assert named(history) is None


def test_an_attempt_of_another_task_meanwhile_deletes_nothing() -> None:
    tried = released("EVALSHA 899b 1 k1 $", "SET lock:k1 another-value NX PX 900", reply="null")
    assert named(tried) is not None
    assert named(released("EVALSHA 899b 1 k1 $", "SET lock:k1 another-value PX 1", reply="null")) is None


def test_a_short_value_may_be_another_word() -> None:
    assert named(released("EVALSHA 899b 1 k1 $"), value="1") is None


def told(history: History, answer: Answer) -> list[tuple[Cause | None, str]]:
    explained = explain(history.recorded(), Verdict("violation", "lock", answer.findings, (), {}), 1)
    return [(one.cause, one.sentence) for each in explained for one in each.explanations]


@pytest.mark.parametrize("check", [ineffective_releases.check, undeleted_keys.check])
@pytest.mark.parametrize("asked", ["EVALSHA 899b 1 k1 $", "EVALSHA 899b 1 lock:k1 other"])
def test_the_findings_of_such_a_release_name_it(asked: str, check: Any, golden: Golden) -> None:
    history = released(asked).wanted()
    ((cause, sentence),) = told(history, check(history.recorded()))
    stays: Cause | None = "stayed" if check is ineffective_releases.check else None
    assert cause == ("another key" if "1 k1" in asked else stays)
    golden(sentence)


def test_a_release_that_says_that_the_lock_is_not_held_had_asked_for_another_key() -> None:
    history = released("EVALSHA 899b 1 k1 $", outcome="fail").wanted()
    ((cause, _),) = told(history, undeleted_keys.check(history.recorded()))
    assert cause == "another key"
