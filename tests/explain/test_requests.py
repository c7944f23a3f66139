"""Explanations that name the request: which client sent what, in which call, when it arrived, and what was answered."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import spans_of, tell
from harness.checkers.judge import judge
from harness.explain.evidence import gather
from harness.explain.examples import case_of
from harness.explain.requests import how_sent
from tests.golden import Golden
from tests.judge.histories import History

NODES = ("n1", "n2", "n3")


def taken(*, shown: bool = False, words: str = "DEL k1", **sent: Any) -> History:
    """c1 is inside from 10 to 90. At 40, c3 takes its key with these words on all nodes; c2 is inside from 50 to 80."""
    history = History(clients=3, ttl_ms=200, nodes=3).section("c1", 10, 90, deadline=200)
    history.section("c2", 50, 80, deadline=240, asked=45).op("c3", "release", "ok", 1, 20, 60)
    for node in NODES:
        history.watch(node)
        history.request("c1", node, "SET k1 a NX PX 200", 9.2, 9.6).seen(node, "set", 9.8, "a", since=9, ttl=200)
        history.request("c3", node, words, **{"arrived": 40, "answered": 41, "reply": "1"} | sent)
        history.seen(node, "deleted", 42, since=39)
        history.request("c2", node, "SET k1 b NX PX 200", 46, 47).seen(node, "set", 48, "b", since=45, ttl=200)
    if shown:
        history.sets("c1", "a").sets("c2", "b")
    return history


def told(history: History, kind: str) -> str:
    run = history.recorded()
    (finding,) = (finding for finding in judge(run).findings if finding.kind == kind)
    case = case_of(run, finding, finding.examples[0])
    return tell(run, gather(run, spans_of(run, [case])), case).sentence


@pytest.mark.parametrize("shown", [True, False], ids=["the lock shows its values", "it shows nothing"])
def test_an_overlap_names_who_deleted_the_key(shown: bool, golden: Golden) -> None:
    golden(told(taken(shown=shown), "overlap"))


@pytest.mark.parametrize(
    ("key", "words", "cause"),
    [
        ("k1", "EVAL release 1 k1 a", "shared value"),
        ("k2", "EVAL release 1 k1 a", "deleted"),
        ("k1", "DEL k1", "deleted"),
    ],
)
def test_only_the_same_value_of_the_same_key_is_a_cause(key: str, words: str, cause: str) -> None:
    """c4 had drawn the value of c1, for the key that c3 deletes or for another one. A DEL compares no value."""
    history = taken(shown=True, words=words).section("c4", 300, 310, key=key, asked=295)
    for node in NODES:
        history.request("c4", node, f"SET {key} a NX PX 200", 296, 297)
        history.seen(node, "set", 298, "a", since=295, ttl=200, key=key)
    run = history.recorded()
    finding = next(finding for finding in judge(run).findings if finding.kind == "overlap")
    case = case_of(run, finding, finding.examples[0])
    assert tell(run, gather(run, spans_of(run, [case])), case).cause == cause


def test_it_says_that_the_request_arrived_after_its_call_had_ended(golden: Golden) -> None:
    history = taken(sent=30)
    history.ops["c3", 1][0].complete_ns = history.ops["c3", 1][0].invoke_ns + 15_000_000
    golden(told(history, "overlap"))


def test_it_says_that_the_request_was_sent_when_the_call_had_ended(golden: Golden) -> None:
    history = taken(sent=39.9)
    history.ops["c3", 1][0].complete_ns = history.ops["c3", 1][0].invoke_ns + 15_000_000
    golden(told(history, "overlap"))


def test_it_says_that_the_request_belongs_to_no_call(golden: Golden) -> None:
    history = taken()
    history.ops.pop(("c3", 1))
    golden(told(history, "overlap"))


def test_what_is_sent_while_a_lock_is_asked_may_be_a_renewal_of_its_own() -> None:
    history = taken()
    history.ops["c3", 1][0].f = "held"
    assert "during its check" in told(history, "overlap")


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"answered": None, "reply": None}, "; the node's answer never came. Then"),
        ({"told": None}, "; the node answered 1, which the client never learnt. Then"),
    ],
)
def test_it_says_what_became_of_the_reply(sent: dict[str, Any], said: str) -> None:
    assert said in told(taken(**sent), "overlap")


def test_a_deletion_without_a_request_on_record_says_so(golden: Golden) -> None:
    history = taken()
    history.requests = [row for row in history.requests if row["client"] != "c3"]
    golden(told(history, "overlap"))


def test_a_key_that_was_overwritten_before_it_was_read(golden: Golden) -> None:
    history = History(clients=2, ttl_ms=200, nodes=3).section("c1", 10, 90, deadline=200)
    history.section("c2", 50, 80, deadline=240, asked=5)
    for node in NODES:
        history.watch(node).request("c1", node, "SET k1 a PX 200", 9.2, 9.4).seen(node, "set", 49, since=9)
        history.request("c2", node, "SET k1 b PX 200", 47, 48).seen(node, "set", 49, "b", since=9, ttl=200)
    golden(told(history, "overlap"))


def test_another_clients_key(golden: Golden) -> None:
    golden(told(taken(), "changed-another-clients-key"))


@pytest.mark.parametrize("answered", [(12.0, 25.0, None), (25.0, 25.0, None)])
def test_a_yes_before_a_majority_had_answered(answered: tuple[float | None, ...], golden: Golden) -> None:
    history = History(nodes=3).section("c1", 20, 50, asked=10)
    for node, at in zip(NODES, answered, strict=True):
        history.watch(node).request("c1", node, "SET k1 a NX PX 100", 11, at).seen(node, "blind", 1000)
    golden(told(history, "grant-before-majority"))


def kept_late(outcome: str) -> History:
    """c1's acquire is refused, or its release returns, at 101; at 500 its lock sets the key on n1."""
    history = History(ttl_ms=900, nodes=3).watch("n1")
    if outcome == "ok":
        history.op("c1", "acquire", "ok", 1, 10, 20, validity_ms=800.0).op("c1", "release", "ok", 1, 100, 101)
        history.request("c1", "n1", "SET k1 a NX PX 900", 12, 13).seen("n1", "set", 14, "a", since=11, ttl=900)
        history.request("c1", "n1", "DEL k1", 100.4, 100.6).seen("n1", "deleted", 100.5, since=100.4)
    else:
        history.op("c1", "acquire", "fail", 1, 10, 101)
    for at in range(0, 1500, 100):
        history.request("c2", "n3", f"GET {at}", at, at + 1, did=False)
    history.request("c1", "n1", "SET k1 a PX 900", 500, 501).seen("n1", "set", 502, "a", since=499, ttl=900)
    return history.seen("n1", "expired", 1402, since=1401)


@pytest.mark.parametrize(("outcome", "kind"), [("ok", "renewal-after-release"), ("fail", "request-after-refusal")])
def test_a_request_that_was_sent_too_late(outcome: str, kind: str, golden: Golden) -> None:
    golden(told(kept_late(outcome), kind))


def test_another_clients_member(golden: Golden) -> None:
    history = History(ttl_ms=400, workload="semaphore", permits=2).watch("n1").section("c1", 10, 300)
    history.section("c2", 500, 800, asked=480, deadline=900)
    for client, at in (("c1", 9.2), ("c2", 490)):
        history.request(client, "n1", f"ZADD k1 {at} {client}-0123456789", at, at + 0.1)
        history.seen("n1", "changed", at + 1, since=at - 0.1)
    history.request("c1", "n1", "ZREM k1 c2-0123456789", 600, 601, reply="1").seen("n1", "changed", 602, since=599)
    golden(told(history, "changed-another-clients-key"))


def test_a_key_with_another_clients_member(golden: Golden) -> None:
    history = History(ttl_ms=400, workload="rw-lock").watch("n1").section("c1", 50, 300, asked=40, deadline=440)
    history.section("c2", 100, 390, asked=90, deadline=490, shared=True)
    for client, at in (("c1", 45), ("c2", 95)):
        history.request(client, "n1", f"HSET k1 {client}-0123456789 1", at, at + 0.1)
        history.seen("n1", "changed", at + 1, since=at - 0.1, ttl=400)
    history.request("c1", "n1", "DEL k1", 301, 302, reply="1").seen("n1", "deleted", 303, since=300)
    golden(told(history, "changed-another-clients-key"))


def readers(c1_until: float, c2_until: float) -> History:
    """c1 and c2 read together; c3 writes at 320, when one of them has left."""
    history = History(ttl_ms=400, workload="rw-lock", nodes=1, clients=3).watch("n1")
    history.section("c1", 50, c1_until, asked=40, deadline=440, shared=True)
    history.section("c2", 100, c2_until, asked=90, deadline=490, shared=True)
    return history.section("c3", 320, 360, asked=310, deadline=700)


def adds(history: History, client: str, at: float, fields: str = "", what: str = "changed") -> None:
    """The client adds a field of its own to the hash of the readers, and with it these fields."""
    history.request(client, "n1", f"HSET k1 {fields}{client}-0123456789 1", at, at + 0.1)
    history.seen("n1", what, at + 1, since=at - 0.1, ttl=400)


def test_a_reader_that_is_inside_when_another_one_deletes_the_hash(golden: Golden) -> None:
    history = readers(c1_until=300, c2_until=390)
    adds(history, "c1", 45, what="set")
    adds(history, "c2", 95)
    history.request("c1", "n1", "HDEL k1 c1-0123456789", 300.2, 300.4, reply="1")
    history.seen("n1", "changed", 300.6, since=300.1)
    history.request("c1", "n1", "DEL k1", 301, 302, reply="1").seen("n1", "deleted", 303, since=300.7)
    adds(history, "c3", 315, what="set")
    golden(told(history, "overlap"))


def test_a_field_that_another_reader_sets_again_is_no_entry_that_it_took_out(golden: Golden) -> None:
    """Both set the field `mode`; c3 is let in by a node that had the hash all the time."""
    history = readers(c1_until=390, c2_until=300)
    adds(history, "c1", 45, "mode x ", what="set")
    adds(history, "c2", 95, "mode x ")
    history.request("c2", "n1", "HDEL k1 c2-0123456789", 300.2, 300.4, reply="1")
    history.seen("n1", "changed", 300.6, since=300)
    adds(history, "c3", 315, "mode x ")
    golden(told(history, "overlap"))


def test_a_request_of_a_process_with_several_calls_under_way_is_not_told_as_a_strangers(golden: Golden) -> None:
    """c1@1 extends while c1@2 acquires, and c1's DEL takes the key: of which of the two is not on record."""
    history = History(clients=2, ttl_ms=200, nodes=1, tasks=2).watch("n1").section("c1@1", 10, 90, deadline=200)
    history.section("c2@1", 50, 80, deadline=240, asked=45)
    history.op("c1@1", "extend", "fail", 1, 20, 60).op("c1@2", "acquire", "fail", 1, 30, 60)
    history.request("c1", "n1", "SET k1 a NX PX 200", 9.2, 9.6).seen("n1", "set", 9.8, "a", since=9, ttl=200)
    history.request("c1", "n1", "DEL k1", 40, 41, reply="1").seen("n1", "deleted", 42, since=39)
    history.request("c2", "n1", "SET k1 b NX PX 200", 46, 47).seen("n1", "set", 48, "b", since=45, ttl=200)
    golden(told(history, "overlap"))


def overwritten_and_deleted(by: str) -> History:
    """c1 is inside. At 30, c3's acquire sets its value over c1's key, and is refused; at 40 a DEL frees it for c2."""
    history = History(clients=4, ttl_ms=200, nodes=1).watch("n1").section("c1", 10, 90, deadline=200)
    history.section("c2", 50, 80, deadline=240, asked=45).op("c3", "acquire", "fail", 1, 28, 35)
    history.op(by, "release", "ok", 7, 38, 43)
    history.request("c1", "n1", "SET k1 a NX PX 200", 9.2, 9.6).seen("n1", "set", 9.8, "a", since=9, ttl=200)
    history.request("c3", "n1", "GETSET k1 c", 30, 31, reply='"a"').seen("n1", "set", 31, "c", since=30)
    history.request(by, "n1", "DEL k1", 40, 41, reply="1").seen("n1", "deleted", 42, since=39)
    return history.request("c2", "n1", "SET k1 b NX PX 200", 46, 47).seen("n1", "set", 48, "b", since=45, ttl=200)


def test_of_a_key_that_was_overwritten_and_then_deleted_the_deletion_let_the_next_one_in(golden: Golden) -> None:
    golden(told(overwritten_and_deleted("c4"), "overlap"))


def test_a_client_that_deletes_what_it_had_set_over_a_key_had_taken_it_before(golden: Golden) -> None:
    golden(told(overwritten_and_deleted("c3"), "overlap"))


def test_of_a_change_whose_request_is_not_on_record_no_time_is_told() -> None:
    run = taken().recorded()
    assert run.ledger is not None
    change = run.ledger.change(0) | {"request": -1, "command": None, "from_client_ns": -1}
    assert how_sent(run, change) == "which request to n1 did it is not on record"
