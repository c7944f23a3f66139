"""Attempts that a majority of the nodes granted, and that the lock refused all the same."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import tell
from harness.explain.evidence import Evidence
from harness.explain.examples import Case
from harness.explain.refused_majority import refused_majority
from harness.history.cancelled_calls import CancelledCall
from harness.verdict import Finding
from tests.golden import Golden
from tests.judge.histories import History, ms

NODES = ("n1", "n2", "n3")
FULL = '{"error":"OOM command not allowed"}'


def takes(history: History, client: str, at: float, value: str, told: float, replies: tuple[str, ...]) -> None:
    """It asks the nodes at this time for k1, and has their replies by `told`."""
    for node, reply in zip(NODES, replies, strict=False):
        did = reply == '"OK"'
        history.request(
            client, node, f"SET k1 {value} NX PX 400", at + 0.2, told - 0.1, told=told, reply=reply, did=did
        )
        if did:
            history.seen(node, "set", told - 0.1, value, since=at + 0.1, ttl=400)


def frees(history: History, client: str, at: float, value: str, nodes: tuple[str, ...] = NODES) -> None:
    for node in nodes:
        history.request(client, node, f"EVAL free 1 k1 {value}", at + 0.1, at + 0.4, sent=at, reply="1")
        history.seen(node, "deleted", at + 0.3, since=at + 0.2)


def refused(
    *clients: str,
    took: float = 5,
    undone: float = 8,
    tries: int = 2,
    between: str = "",
    replies: tuple[str, ...] = ('"OK"', '"OK"', FULL),
    outcome: str = "fail",
    **config: Any,
) -> History:
    """c1 is granted the lock at 20, by replies that took 10 ms. Every 1,000 ms one of the clients (c1, c2 and c1)
    tries, each time this often in a call: it has the replies after `took`, and undoes the attempt after `undone`."""
    history = History(ttl_ms=400, **config).watch(*NODES).section("c1", 20, 30, asked=5)
    takes(history, "c1", 6, "value-of-0", 16, ('"OK"',) * 3)
    frees(history, "c1", 30.2, "value-of-0")
    granted = tuple(node for node, reply in zip(NODES, replies, strict=False) if reply == '"OK"')
    for number, client in enumerate(clients or ("c1", "c2", "c1"), 1):
        began = 1_000 * number
        history.op(client, "acquire", outcome, number + 1, began, began + tries * 100 + 50)
        for at in range(began + 1, began + tries * 100, 100):
            takes(history, client, at, f"value-of-{number}", at + took, replies)
            if between:
                history.request(client, "n1", between, at + took + 0.2, at + took + 0.4, did=False)
            frees(history, client, at + undone, f"value-of-{number}", granted)
    return history


def told(history: History, since: float = 900, until: float = 9_000) -> str | None:
    run = history.recorded()
    found = refused_majority(run, "k1", ms(since), ms(until))
    return None if found is None else found.in_words(run)


def test_the_lock_refuses_what_a_majority_granted(golden: Golden) -> None:
    golden(str(told(refused())))
    golden(str(told(refused(), since=1_500)))


def test_it_is_told_of_a_time_in_which_it_happened() -> None:
    assert told(refused(), until=1_000) is None
    assert told(refused(), since=3_500) is None


@pytest.mark.parametrize(
    ("clients", "is_found"), [(("c1", "c2"), False), (("c1", "c2", "c2"), True), (("c1", "c1", "c1"), False)]
)
def test_it_happened_several_times_to_several_clients(clients: tuple[str, ...], is_found: bool) -> None:
    assert (told(refused(*clients, tries=1)) is not None) == is_found


@pytest.mark.parametrize(
    "replies",
    [
        ('"OK"', FULL, FULL),
        ('"OK"', '"OK"'),  # the third was not asked
        ('"OK"', "null", '"OK"'),
    ],
)
def test_how_many_nodes_granted_it(replies: tuple[str, ...]) -> None:
    assert (told(refused(replies=replies)) is not None) == (replies.count('"OK"') > 1)


@pytest.mark.parametrize(("took", "is_found"), [(5.1, True), (5.2, False)])
def test_a_reply_may_be_too_late_for_the_lock(took: float, is_found: bool) -> None:
    """Those of the acquire that was granted took 10.2 ms at the proxy."""
    assert (told(refused(took=took - 0.1)) is not None) == is_found


@pytest.mark.parametrize(("undone", "tries", "is_found"), [(99, 2, True), (99.1, 1, False), (98.9, 1, True)])
def test_the_validity_may_be_used_up(undone: float, tries: int, is_found: bool) -> None:
    assert (told(refused(undone=undone, tries=tries)) is not None) == is_found


def test_the_time_to_wait_may_be_over_when_the_last_attempt_is() -> None:
    assert told(refused(tries=1, wait_ms=8.9)) is None
    assert told(refused(tries=1, wait_ms=9)) is not None
    assert told(refused(tries=2, wait_ms=8.9)) is not None, "the lock went on"


@pytest.mark.parametrize(
    ("between", "is_found"), [("CLIENT SETINFO LIB-NAME it", True), ("WAIT 1 100", False), ("INCR k1:token", False)]
)
def test_the_lock_may_need_more_than_these_replies(between: str, is_found: bool) -> None:
    assert (told(refused(between=between)) is not None) == is_found


def test_an_attempt_that_is_not_refused_is_none() -> None:
    assert told(refused(outcome="info")) is None


@pytest.mark.parametrize(
    ("hit", "is_found"),
    [
        ({"nodes": ("n1",)}, False),
        ({"nodes": ("n3",)}, True),
        ({"slow_links": (("c1", "n1"), ("c2", "n1"))}, False),
        ({"paused_clients": ("c1", "c2")}, False),
        ({"wrong_client_clocks": ("c1", "c2")}, False),
    ],
)
def test_a_fault_may_have_been_in_the_way(hit: dict[str, Any], is_found: bool) -> None:
    assert (told(refused().fault("f", 500, 8_000, **hit)) is not None) == is_found


def test_a_client_may_have_had_no_processor_or_a_call_was_cancelled() -> None:
    starved = refused()
    starved.kept_waiting = {"c1": [(ms(900), ms(8_000))], "c2": [(ms(900), ms(8_000))]}
    assert told(starved) is None
    run = refused().recorded()
    vars(run)["cancelled"] = tuple(CancelledCall(name, "k1", ms(900), ms(8_000), ms(8_500)) for name in ("c1", "c2"))
    assert refused_majority(run, "k1", ms(900), ms(9_000)) is None


def test_a_lock_of_two_keys_needs_both_of_them() -> None:
    history = refused()
    for number, client in enumerate(("c1", "c2", "c1"), 1):
        for at in (1_000 * number + 1, 1_000 * number + 101):
            for node in NODES[:2]:
                words = f"SET k1:also value-of-{number} NX PX 400"
                history.request(client, node, words, at + 0.3, at + 2, reply="null", did=False)
    assert told(history) is None


@pytest.mark.parametrize(("last", "is_found"), [("GET k1", True), ("EVAL commit 1 k1 value-of-0", False)])
def test_a_lock_may_take_two_steps(last: str, is_found: bool) -> None:
    """The one with which acquires end that are granted says whether they are."""
    history = refused()
    for node in NODES:
        history.request("c1", node, last, 17, 18, reply="1", did=False)
    assert (told(history) is not None) == is_found


@pytest.mark.parametrize(
    ("obstacle", "replies", "cause"),
    [
        ("answering errors", ('"OK"', '"OK"', FULL), "majority refused"),
        ("absent in turn", ('"OK"', '"OK"', FULL), "majority refused"),
        ("answering errors", ('"OK"', FULL, FULL), "absent node"),
        ("stuck keys", ('"OK"', '"OK"', FULL), "stuck keys"),
    ],
)
def test_a_gap_beside_an_absent_node_names_it(obstacle: str, replies: tuple[str, ...], cause: str) -> None:
    example = {
        "key": "k1",
        "at_ms": 900,
        "for_ms": 4_000,
        "clients": ("c1", "c2"),
        "obstacle": obstacle,
        "nodes": ["n3"],
    }
    case = Case(Finding("unavailable-while-free", "lock", "text"), example, {})
    explained = tell(refused(replies=replies).recorded(), Evidence(), case)
    assert explained.cause == cause
    assert ("a majority, granted" in explained.sentence) == (cause == "majority refused")
