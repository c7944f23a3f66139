"""Keys that were gone by what their own client had asked for: a short time to live, one that was over at once, or a
nested acquire and its release."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import spans_of, tell
from harness.checkers.judge import judge
from harness.explain.evidence import gather
from harness.explain.examples import case_of
from harness.explain.expiries import ttl_given
from harness.explain.kinds import Told
from tests.golden import Golden
from tests.judge.histories import History, ms

NODES = ("n1", "n2", "n3")


def inside(
    words: str = "SET k1 a NX PX 200", *, deadline: float = 200, nested: bool = False, ttl_ms: int = 200
) -> History:
    """c1 is inside from 10 to 90, by these words to each node, and c2 from 50 to 80. With a nested acquire, c1 makes it
    from 12 to 20 and releases that from 20 to 45."""
    history = History(clients=3, ttl_ms=ttl_ms, nodes=3).section("c1", 10, 90, deadline=deadline, asked=8)
    history.section("c2", 50, 80, deadline=240, asked=45)
    if nested:
        history.op("c1", "reenter", "ok", 1, 12, 20).op("c1", "leave", "ok", 1, 20, 45)
    for node in NODES:
        history.watch(node)
        history.request("c1", node, words, 9.2, 9.6).seen(node, "set", 9.8, "a", since=9, ttl=200)
    return history


def told(history: History, *, kind: str = "overlap") -> Told:
    """After c2 has set its key on all nodes."""
    for node in NODES:
        history.request("c2", node, "SET k1 b NX PX 200", 46, 47).seen(node, "set", 48, "b", since=45, ttl=200)
    run = history.recorded()
    (finding,) = (finding for finding in judge(run).findings if finding.kind == kind)
    case = case_of(run, finding, finding.examples[0])
    return tell(run, gather(run, spans_of(run, [case])), case)


def gone(history: History, what: Any, at: float = 40, **more: Any) -> History:
    for node in NODES:
        history.seen(node, what, at, since=at - 1, **more)
    return history


def asked(history: History, words: str, at: float, client: str = "c1", what: Any = None, **more: Any) -> History:
    for node in NODES:
        history.request(client, node, words, at, at + 0.5, reply="1")
        if what is not None:
            history.seen(node, what, at + 0.6, since=at, **more)
            history.by(history.key_events[-1], len(history.requests) - 1)
    return history


@pytest.mark.parametrize(
    ("words", "ttl_ms"),
    [
        ("SET k a NX PX 30", 30),
        ("SET k a ex 3 nx", 3_000),
        ("SET k a NX", None),
        ("SET k PX 30", None),
        ("SET k a PX", None),
        ("SET k a PX -2", None),
        ("PSETEX k 30 a", 30),
        ("SETEX k 3 a", 3_000),
        ("PEXPIRE k 30", 30),
        ("EXPIRE k 3", 3_000),
        ("EXPIRE k", None),
        ("PEXPIREAT k 1700000000000", None),
        ("EVAL script 1 k a 30", None),
        ("DEL k", None),
    ],
)
def test_the_time_to_live_in_a_requests_words(words: str, ttl_ms: int | None) -> None:
    assert ttl_given(words.split()) == ttl_ms


def test_a_key_with_a_shorter_ttl_than_its_lease(golden: Golden) -> None:
    short = told(gone(inside("SET k1 a NX PX 30"), "expired"))
    assert short.cause == "short TTL"
    golden(short.sentence)


def test_a_key_that_was_seen_to_expire_was_over() -> None:
    """Its time to live, counted from when it was seen, ends a little after the next client's request."""
    assert told(gone(inside("SET k1 a NX PX 36"), "expired", 44.9)).cause == "short TTL"


def test_so_is_one_that_was_overwritten_when_it_was_over_already() -> None:
    assert told(inside("SET k1 a NX PX 30")).cause == "short TTL"
    assert told(inside("SET k1 a NX PX 44")).cause == "overwritten"
    assert told(inside()).cause == "overwritten"


def test_an_extension_may_give_the_short_ttl_or_mend_it() -> None:
    extends = inside().op("c1", "extend", "ok", 1, 14, 18, deadline_ns=ms(210), validity_ms=194)
    asked(extends, "PEXPIRE k1 20", 15, what="prolonged")
    assert told(gone(extends, "expired")).cause == "short TTL"
    mended = asked(inside("SET k1 a NX PX 30"), "PEXPIRE k1 200", 15, what="prolonged")
    assert told(gone(mended, "expired")).cause == "expired"


@pytest.mark.parametrize("words", ["SET k1 a NX PX 200", "SET k1 a NX PX 199", "EVAL set 1 k1 a 30"])
def test_a_ttl_that_is_as_long_as_the_lease_or_that_a_script_gave_is_not_called_short(words: str) -> None:
    assert told(gone(inside(words), "expired")).cause == "expired"


@pytest.mark.parametrize(("is_over", "cause"), [(True, "short TTL"), (False, "overwritten")])
def test_what_the_owner_set_anew_and_nobody_could_read(is_over: bool, cause: str, golden: Golden) -> None:
    """It may have been the same value. It was over before that could be read, or the next client set over it."""
    history = asked(inside(), "SET k1 a XX PX 1", 20, what="set", value=None)
    one = told(gone(history, "expired", 30) if is_over else history)
    assert one.cause == cause
    golden(one.sentence)


def test_nor_is_one_that_lasts_until_the_lease_that_the_lock_told() -> None:
    history = gone(inside("SET k1 a NX PX 150", deadline=110), "expired", at=44)
    assert told(history).cause == "expired"


def test_nor_one_on_a_node_whose_clock_was_wrong() -> None:
    history = gone(inside("SET k1 a NX PX 30"), "expired")
    history.fault("f", 5, 60, wrong_clocks=dict.fromkeys(NODES, 9.0))
    assert told(history).cause == "expired"


def test_a_key_that_was_deleted_before_its_short_ttl_was_over_was_deleted() -> None:
    history = asked(inside("SET k1 a NX PX 30"), "DEL k1", 20, "c3", "deleted").op("c3", "release", "ok", 1, 19, 22)
    assert told(history).cause == "deleted"


@pytest.mark.parametrize("words", ["PEXPIRE k1 0", "PEXPIRE k1 -2", "EXPIRE k1 0"])
def test_a_ttl_that_is_over_at_once_deletes_the_key(words: str, golden: Golden) -> None:
    history = inside().op("c1", "extend", "ok", 1, 14, 18, deadline_ns=ms(210), validity_ms=194)
    over = told(asked(history, words, 15, what="deleted"))
    assert over.cause == "short TTL"
    golden(over.sentence)


def test_that_of_another_client_is_a_deletion() -> None:
    history = inside().op("c3", "release", "ok", 1, 14, 18)
    assert told(asked(history, "PEXPIRE k1 0", 15, "c3", "deleted")).cause == "deleted"


def an_extension_deletes(history: History, by: str) -> History:
    """An extension of c1 fails from 30 to 42; this client sends a DEL to each node meanwhile."""
    history.op("c1", "extend", "fail", 1, 30, 42)
    return asked(history, "DEL k1", 40, by, "deleted", value="a")


@pytest.mark.parametrize("kind", ["overlap", "lease-without-majority"])
@pytest.mark.parametrize(("by", "cause"), [("c1", "deleted by itself"), ("c3", "deleted")])
def test_a_holder_whose_own_request_deletes_its_key_is_told_apart(by: str, cause: str, kind: str) -> None:
    said = told(an_extension_deletes(inside(), by), kind=kind)
    assert said.cause == cause
    if by == "c1":
        assert "in its extension it sent DEL" in said.sentence


@pytest.mark.parametrize(("value", "cause"), [(None, "deleted by itself"), ("other", "overwritten")])
def test_an_extension_that_sets_the_key_anew_and_deletes_it_overwrote_nothing(value: str | None, cause: str) -> None:
    history = inside().op("c1", "extend", "fail", 1, 30, 42)
    history = asked(history, "EVAL extends 1 k1 a 200", 34, what="set", value=value)
    assert told(asked(history, "EVAL undoes 1 k1 a", 38, what="deleted", value=value)).cause == cause


def test_a_nested_release_removes_what_its_acquire_had_set_over_the_key(golden: Golden) -> None:
    history = asked(inside(nested=True), "SET k1 nested PX 200", 15, what="set", value="nested", ttl=200)
    nested = told(asked(history, "DEL k1", 30, what="deleted"))
    assert nested.cause == "nested release"
    golden(nested.sentence)


def test_a_nested_release_removes_the_key_itself(golden: Golden) -> None:
    nested = told(asked(inside(nested=True), "DEL k1", 30, what="deleted"))
    assert nested.cause == "nested release"
    golden(nested.sentence)


def test_what_another_client_does_with_it_is_not_the_nested_releases() -> None:
    history = asked(inside(nested=True), "SET k1 nested PX 200", 15, what="set", value="nested", ttl=200)
    history.op("c3", "release", "ok", 1, 25, 35)
    assert told(asked(history, "DEL k1", 30, "c3", "deleted")).cause == "deleted"
    history = inside(nested=True).op("c3", "release", "ok", 1, 25, 35)
    assert told(asked(history, "DEL k1", 30, "c3", "deleted")).cause == "deleted"


def went_down(words: str, ttl: int, ttl_ms: int) -> History:
    """The nodes are down from 20 until 35."""
    history = inside(words, ttl_ms=ttl_ms)
    history.fault("f1", 20, 35, nemesis="crash", nodes=NODES, keys_at_stake=(), how_down="kill")
    for event in history.key_events:
        if event.event == "set":
            event.ttl_ms = ttl
    for node in NODES:
        history.seen(node, "blind", 21).seen(node, "watching", 36, f"{node}-second")
    return history


@pytest.mark.parametrize(
    ("words", "ttl", "ttl_ms", "cause"),
    [
        ("SET k1 a NX PX 200", 200, 200, "forgotten"),
        ("SET k1 a NX PX 30", 30, 200, "short TTL"),
        ("SET k1 a NX PX 15", 15, 15, "expired"),
        ("SET k1 a NX PX 35", 35, 15, "forgotten"),
        ("EVAL set 1 k1 a 15", 15, 15, "expired"),
        ("EVAL set 1 k1 a 15", 30, 15, "forgotten"),
        ("EVAL set 1 k1 a 15", 15, 200, "forgotten"),
    ],
)
def test_a_key_whose_ttl_ran_out_while_its_node_was_down_was_not_forgotten(
    words: str, ttl: int, ttl_ms: int, cause: str
) -> None:
    """A script that gave it a time to live is taken at the lease, or at what the witness read, if that is longer."""
    assert told(went_down(words, ttl, ttl_ms)).cause == cause


@pytest.mark.parametrize(("crash", "cause"), [(True, "forgotten"), (False, "unknown")])
def test_a_key_set_while_the_witness_was_blind_overwrote_nothing(crash: bool, cause: str) -> None:
    """The witness comes back when c2 has set its key already."""
    history = inside()
    if crash:
        history.fault("f1", 20, 35, nemesis="crash", nodes=NODES, keys_at_stake=(), how_down="kill")
    for node in NODES:
        history.seen(node, "blind", 21).seen(node, "seen", 59, "b", ttl=185)
        history.seen(node, "watching", 60, f"{node}-{'second' if crash else 'first'}")
        history.request("c2", node, "SET k1 b NX PX 200", 46, 47, did=False)
    run = history.recorded()
    (finding,) = (finding for finding in judge(run).findings if finding.kind == "overlap")
    case = case_of(run, finding, finding.examples[0])
    assert tell(run, gather(run, spans_of(run, [case])), case).cause == cause


@pytest.mark.parametrize(("by", "value", "is_told"), [("c1", "a", True), ("c1", "c", False), ("c2", "a", False)])
def test_a_renewal_that_sets_the_key_anew_is_told(by: str, value: str, is_told: bool, golden: Golden) -> None:
    """c1's key expires at 110, and is set again at 140; at 150 the lock says that it is held all the same."""
    history = History(clients=3, ttl_ms=100, nodes=3, renewal_ms=50).section("c1", 10, 190, deadline=250, asked=8)
    history.op("c1", "held", "ok", 1, 150, 151).sets("c1", "a")
    for node in NODES:
        history.watch(node)
        history.request("c1", node, "SET k1 a NX PX 100", 9.2, 9.6).seen(node, "set", 9.8, "a", since=9, ttl=100)
        history.seen(node, "expired", 110, "a", since=109)
    asked(history, f"EVAL renew 1 k1 {value}", 140, by, "set", value=value, ttl=100)
    run = history.recorded()
    (finding,) = (finding for finding in judge(run).findings if finding.kind == "lease-without-majority")
    case = case_of(run, finding, finding.examples[0])
    text = tell(run, gather(run, spans_of(run, [case])), case).sentence
    assert ("key anew" in text) is is_told
    golden(text)
