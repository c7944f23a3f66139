"""Clients that sleep on beside a free lock: blocked, subscribed, told of a release, or overtaken."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from harness.checkers.explained import explain
from harness.checkers.free_waits import check
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.free_waits import freed, judged, longest, only
from tests.judge.histories import History, ms


def blocked(
    limit: str = "9",
    *,
    clients: int = 3,
    woken: float = 1500,
    expired: float = 411,
    ttl_ms: int = 400,
    others: float = 60,
    key: str = "k1",
    added: bool = False,
) -> History:
    """c1 never gives its key back. c2 is blocked on a list from 60 on, `others` later, until c9 gives the lock back.
    `key`: any other is a set of those that are inside. `added`: and of c8, which asked in between."""

    def sets(client: str, value: str, at: float) -> None:
        words = f"SET {key} {value} NX PX 400" if key == "k1" else f"ZADD {key} 1 {value}"
        history.request(client, "n1", words, at - 1, at)
        history.seen("n1", "set", at, value if key == "k1" else None, key=key, ttl=400)
        if key != "k1":
            history.called(words)

    history = History(ttl_ms=ttl_ms, nodes=1, clients=9).watch("n1").op("c1", "acquire", "info", 1, 8, 12)
    sets("c1", "a", 11)
    if added:
        history.op("c8", "acquire", "fail", 1, 20, 40).request("c8", "n1", f"ZADD {key} 2 b", 29, 30)
        history.seen("n1", "changed", 30, key=key).called(f"ZADD {key} 2 b")
    history.seen("n1", "expired", expired, key=key)
    for number in range(2, 2 + clients):
        of = f"c{number}"
        history.op(of, "acquire", "fail", 1, 50, woken + 4)
        history.request(of, "n1", f"SET k1 {of} NX PX 400", 51, 52, reply="null", did=False)
        since = 60 if number == 2 else others
        history.request(of, "n1", f"BLPOP k1:wake {limit}", since, woken, did=False)
        history.request(of, "n1", f"SET k1 {of} NX PX 400", woken + 2, woken + 3, reply="null", did=False)
    history.section("c9", woken - 45, woken - 5, asked=woken - 50)
    sets("c9", "z", woken - 48)
    history.request("c9", "n1", f"DEL {key}", woken - 3, woken - 2).seen("n1", "deleted", woken - 2, key=key)
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    return history


@pytest.mark.parametrize("limit", ["9", "0", "2.1"])
def test_clients_that_are_blocked_past_every_lease_are_not_woken_by_an_expiry(limit: str, golden: Golden) -> None:
    history = blocked(limit)
    finding = only(history)
    assert (finding.kind, finding.blame, finding.count) == ("waits-for-free-lock", "lock", 3)
    example = finding.examples[0]
    assert (example["at_ms"], example["for_ms"], example["freed"]) == (411, pytest.approx(1041), "expired")
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "blocked too long"
    if limit == "9":
        golden(told.explanations[0].sentence)


@pytest.mark.parametrize(("key", "added", "found"), [("s:k1", False, 1041), ("s", False, None), ("s:k1", True, None)])
def test_so_it_is_of_a_set_that_is_there_while_a_client_is_inside(key: str, added: bool, found: float | None) -> None:
    assert longest(blocked(key=key, added=added)) == (found and pytest.approx(found))


def test_one_that_sleeps_for_a_second_shows_that_no_timer_wakes_the_others() -> None:
    assert longest(blocked(woken=1310, others=400)) == pytest.approx(1310 - 48 - 411)
    assert longest(blocked(woken=1309)) is None
    assert longest(blocked(woken=1310, others=700, expired=800)) is None


@pytest.mark.parametrize(
    "how",
    [
        {"limit": "2"},
        {"limit": "1"},
        {"limit": "soon"},
        {"clients": 2},
        {"expired": 1203},
        {"woken": 1250},
        {"ttl_ms": 1300},
    ],
    ids=str,
)
def test_a_client_may_be_blocked_if(how: Any) -> None:
    """Its time limit is a lease in whole seconds and one more, or less, or unknown; it happened twice; the key was free
    for a moment; the client looks again within a second, or within the lease."""
    assert longest(blocked(**how)) is None


def test_another_one_that_looks_again_may_wake_those_that_are_blocked() -> None:
    history = blocked().op("c5", "acquire", "fail", 1, 50, 1504)
    assert longest(history) is None
    history.request("c5", "n1", "BLPOP k1:wake 1", 60, 1061, reply="null", did=False)
    assert longest(history) is None
    history.requests.pop()
    assert longest(history.request("c5", "n1", "BLPOP k1:wake 9", 60, 1500, did=False)) == pytest.approx(1041)


def test_a_release_that_wakes_no_client_is_no_expiry() -> None:
    history = blocked()
    (expiry,) = [event for event in history.key_events if event.event == "expired"]
    expiry.event = "deleted"
    assert longest(history) is None


@pytest.mark.parametrize(
    "hit",
    [{"nodes": ("n1",)}, {"cut_links": (("c2", "n1"),)}, {"paused_clients": ("c3",)}],
    ids=str,
)
def test_not_if_a_fault_may_have_woken_one_that_is_blocked_or_kept_it(hit: Any) -> None:
    assert longest(blocked().fault("f", 400, 1500, **hit)) is None


def subscribed(
    *, times: int = 3, silent: float = 1250, command: str = "SUBSCRIBE", looks_after: float = 0, taken: float = 0
) -> History:
    """Every 3,000 ms c2 looks, is refused, listens, and gives up when it has been silent for so long, or it looks again
    meanwhile. The key is there from the first look on for so long."""
    history = freed()
    for number in range(1, times + 1):
        at = 3_000 * number
        history.op("c2", "acquire", "fail", number, at, at + 4.1 + silent)
        history.request("c2", "n1", "SET k1 b NX PX 400", at + 1, at + 2, reply="null", did=False)
        history.request("c2", "n1", f"{command} k1:free", at + 3, at + 4, did=False)
        if looks_after:
            history.request("c2", "n1", "GET k1", at + looks_after, at + looks_after + 1, did=False)
        if taken:
            history.request("c3", "n1", "SET k1 c NX PX 400", at, at + 0.5).seen("n1", "set", at, "c", ttl=9000)
            history.request("c3", "n1", "DEL k1", at + taken, at + taken + 0.5).seen("n1", "deleted", at + taken)
    return history


def test_a_client_that_subscribes_looks_again_when_a_lease_has_passed(golden: Golden) -> None:
    history = subscribed()
    finding = only(history)
    assert (finding.blame, finding.breaks, finding.count) == ("lock", "liveness", 3)
    golden(finding.text)
    run = history.recorded()
    (told,) = explain(run, Verdict("violation", "lock", check(run).findings, (), {}), 1)
    golden(told.explanations[0].sentence)
    assert told.explanations[0].cause == "not notified"
    assert longest(subscribed(silent=1249.9)) is None


@pytest.mark.parametrize(
    "how", [{"times": 2}, {"command": "BLPOP"}, {"looks_after": 700}, {"taken": 1_005}], ids=lambda how: next(iter(how))
)
def test_a_client_that_subscribes_and_that_is_in_order(how: Any) -> None:
    assert longest(subscribed(**how)) is None


@pytest.mark.parametrize(("closed", "number"), [(1_250.1, 3), (1_249.9, None)])
def test_a_client_that_gives_up_may_close_the_connection_on_which_it_listened(
    closed: float, number: int | None
) -> None:
    """So long after it had heard of its subscription, and 10 ms before it says anything else."""
    history = subscribed(silent=1_260)
    for request in history.requests:
        if request["command"] == "SUBSCRIBE":
            request["connection"] = 1_000 + len(history.closed)
            heard_ms = (request["to_client_ns"] - ms(0)) / 1e6
            history.closed[request["connection"]] = (heard_ms + closed,)
    assert [finding.count for finding in judged(history).findings] == ([] if number is None else [number])


def test_a_fault_may_have_taken_the_wake_up_and_not_the_timer() -> None:
    early = subscribed().fault("f", 2_900, 3_900, cut_links=(("c2", "n1"),))
    assert only(early).count == 3
    late = subscribed().fault("f", 4_000, 5_000, cut_links=(("c2", "n1"),))
    assert only(late).count == 3
    assert longest(subscribed().fault("f", 3_100, 4_200, cut_links=(("c2", "n1"),))) is None


def test_the_lock_must_have_been_free_for_a_while() -> None:
    assert longest(subscribed(taken=1_004.1)) == pytest.approx(250)


def told(
    *,
    times: int = 3,
    sleeps: float = 600,
    message: str = '["message","k1:free","free"]',
    heard: float = 1_000.5,
    taken_again: float = 0,
    key: str = "k1",
    added: bool = False,
) -> History:
    """Every 3,000 ms c3 takes the key for 1,000 ms; c2 looks, is refused, is told of the release, and looks again only
    so much later."""
    history = freed()
    for number in range(1, times + 1):
        at = 3_000 * number
        history.op("c2", "acquire", "fail", number, at + 1, at + 1_010 + sleeps)
        history.request("c3", "n1", "SET k1 c NX PX 9000", at, at + 0.5).seen("n1", "set", at, "c", ttl=9000)
        history.request("c2", "n1", "SET k1 b NX PX 400", at + 2, at + 3, reply="null", did=False)
        history.request("c2", "n1", "SUBSCRIBE k1:free", at + 4, at + 5, did=False, connection=777)
        history.request("c3", "n1", "DEL k1", at + 1_000, at + 1_000.5).seen("n1", "deleted", at + 1_000)
        at_told = {"sent": None, "told": at + heard, "connection": 777, "reply": message, "did": False}
        history.request("c2", "n1", "", None, at + heard - 0.1, **at_told)
        if taken_again:
            again = at + 1_000 + taken_again
            history.request("c1", "n1", f"SET {key} d NX PX 50", again, again).seen("n1", "set", again, "d", key=key)
            history.request("c1", "n1", f"DEL {key}", again + 1, again + 1).seen("n1", "deleted", again + 1, key=key)
    return history


def pushed(*, times: int = 3, sleeps: float = 700, blocks: str = "BRPOP wake 2") -> History:
    """c3's release pushes onto the list on which c2 is blocked, and deletes it."""
    history = freed()
    for number in range(1, times + 1):
        at = 3_000 * number
        history.op("c2", "acquire", "fail", number, at + 1, at + 1_010 + sleeps)
        history.request("c3", "n1", "SET k1 c NX PX 9000", at, at + 0.5).seen("n1", "set", at, "c", ttl=9000)
        history.request("c2", "n1", "SET k1 b NX PX 400", at + 2, at + 3, reply="null", did=False)
        history.request("c2", "n1", blocks, at + 4, at + 1_000 + sleeps, reply="null", did=False, connection=777)
        for event, key, did in (("deleted", "k1", "DEL"), ("set", "wake", "LPUSH"), ("deleted", "wake", "DEL")):
            history.seen("n1", event, at + 1_000, key=key)
            if key == "k1":
                history.request("c3", "n1", "EVAL free 2 k1 wake", at + 999.5, at + 1_000.5)
            history.by(history.key_events[-1], len(history.requests) - 1)
            history.key_events[-1].command = did
    return history


def test_a_push_onto_a_list_that_is_deleted_at_once_wakes_no_client() -> None:
    history = pushed()
    finding = only(history)
    assert (finding.kind, finding.blame, finding.count) == ("waits-for-free-lock", "lock", 3)
    (one,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert one.explanations[0].cause == "not notified"
    assert "c3 had pushed onto it" in one.explanations[0].sentence


def test_it_slept_on_if_another_client_takes_the_lock_a_little_later() -> None:
    assert longest(told(taken_again=260)) == pytest.approx(260, abs=1)


@pytest.mark.parametrize("how", [{"times": 2}, {"sleeps": 400}, {"blocks": "BRPOP another 2"}], ids=str)
def test_no_push_was_lost_if(how: Any) -> None:
    """It happened twice; the client looked again soon; it was blocked on another list."""
    assert longest(pushed(**how)) is None


def test_a_client_that_was_told_of_the_release_and_sleeps_on(golden: Golden) -> None:
    history = told()
    finding = only(history)
    assert (finding.kind, finding.blame, finding.count) == ("waits-for-free-lock", "lock", 3)
    assert finding.examples[0]["told_ms"] == 4_000.5
    run = history.recorded()
    (one,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert one.explanations[0].cause == "not woken"
    golden(one.explanations[0].sentence)


@pytest.mark.parametrize(
    "how",
    [
        {"times": 2},
        {"sleeps": 480},
        {"message": '["message","k2:free","free"]'},
        {"message": '["subscribe","k1:free",1]', "heard": 400},
        {"heard": 1_254, "sleeps": 900},
        {"taken_again": 200},
        {"taken_again": 200, "key": "k1:queue"},
    ],
    ids=str,
)
def test_a_client_that_was_told_is_in_order_if(how: Any) -> None:
    """It happened twice; it looks within half a second; it was told of another key, or before, or later; another client
    took the key; the lock keeps a queue."""
    assert longest(told(**how)) is None


def test_a_message_that_a_fault_delays_or_a_client_that_is_slow_is_not_the_locks() -> None:
    assert longest(told().fault("f", 3_900, 4_100, cut_links=(("c2", "n1"),))) is None
    history = told()
    history.kept_waiting["c2"] = [(ms(4_100), ms(4_300))]
    assert longest(history) is None


def subscribes_late(
    *, times: int = 3, sleeps: float = 600, deleted: float = 5, looks: float = 0, key: str = "k1", tasks: int = 1
) -> History:
    """Every 3,000 ms c3 deletes the key just after c2 has looked, and before it subscribes. c2 looks again only so much
    later."""
    history = freed(tasks=tasks)
    for number in range(1, times + 1):
        at = 3_000 * number
        history.op("c2", "acquire", "fail", number, at + 1, at + 10 + sleeps)
        history.request("c3", "n1", "SET k1 c NX PX 9000", at, at + 0.5).seen("n1", "set", at, "c", ttl=9000)
        history.request("c2", "n1", "SET k1 b NX PX 400", at + 2, at + 3, reply="null", did=False)
        gone = at + deleted
        history.request("c3", "n1", "DEL k1", gone, gone + 0.5).seen("n1", "deleted", gone)
        history.request("c2", "n1", "SUBSCRIBE k1:free", at + 8, at + 9, did=False, connection=777)
        if looks:
            history.request("c2", "n1", f"SET {key} b NX PX 400", at + looks, at + looks, reply="null", did=False)
    return history


def test_a_client_that_subscribes_when_the_release_is_over_must_look_again(golden: Golden) -> None:
    history = subscribes_late()
    finding = only(history)
    assert (finding.kind, finding.blame, finding.count) == ("waits-for-free-lock", "lock", 3)
    assert finding.examples[0]["subscribed_ms"] == pytest.approx(3_009.1)
    (one,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert one.explanations[0].cause == "subscribed late"
    golden(one.explanations[0].sentence)


@pytest.mark.parametrize(
    "how",
    [{"times": 2}, {"sleeps": 490}, {"deleted": 1.5}, {"deleted": 10}, {"looks": 11}, {"looks": 7}, {"tasks": 2}],
    ids=str,
)
def test_a_client_that_subscribes_is_in_order_if(how: Any) -> None:
    """It happened twice; it looks again soon; the key was gone when it looked, or was deleted when it was subscribed;
    it looked once more, also before it was subscribed; another task may have subscribed."""
    assert longest(subscribes_late(**how)) is None


def test_so_it_must_if_it_sleeps_for_longer() -> None:
    history = subscribes_late(times=1, sleeps=2_100)
    finding = only(history)
    assert finding.count == 1
    (one,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert one.explanations[0].cause == "subscribed late"


def overtaken(
    *,
    times: int = 3,
    gone: float = 400,
    invoked: float = 20,
    sleeps: float = 1_310,
    ends: Literal["expired", "deleted"] = "expired",
    listens: Literal["each time", "before it asks", "once"] = "each time",
    since: float = 30,
    leaves: bool = False,
) -> History:
    """Every 3,000 ms c3 sets the key, which is `gone` so much later. c2 looks, is refused, listens, and `sleeps` until
    then. c1 asks for the key 20 ms after it was gone, is let in 5 ms later, and stays for a second."""
    history = freed()
    if listens == "once":
        history.request("c2", "n1", "SUBSCRIBE k1:free", since, since + 1, did=False, connection=777)
    for number in range(1, times + 1):
        at = 3_000.0 * number
        history.request("c3", "n1", "SET k1 c NX PX 400", at, at + 0.5).seen("n1", "set", at, "c", ttl=400)
        history.op("c2", "acquire", "fail", number, at + 1, at + sleeps)
        if listens == "before it asks":
            history.request("c2", "n1", "SUBSCRIBE k1:free", at + 2, at + 3, did=False, connection=777)
        history.request("c2", "n1", "SET k1 b NX PX 400", at + 4, at + 5, reply="null", did=False)
        if listens == "each time":
            history.request("c2", "n1", "SUBSCRIBE k1:free", at + 6, at + 7, did=False, connection=777)
        if leaves:
            history.request("c2", "n1", "UNSUBSCRIBE k1:free", at + 8, at + 9, did=False, connection=777)
        at += gone
        if ends == "deleted":
            history.request("c3", "n1", "DEL k1", at - 1, at - 0.5)
        history.seen("n1", ends, at, since=at - 1)
        history.section("c1", at + 25, at + 1_025, number=number + 1, asked=at + invoked, deadline=at + 1_100)
        history.request("c1", "n1", "SET k1 a NX PX 9000", at + 22, at + 23).seen("n1", "set", at + 22.5, "a")
        history.request("c1", "n1", "DEL k1", at + 1_025.5, at + 1_026).seen("n1", "deleted", at + 1_026)
    return history


def test_a_client_that_subscribes_and_sleeps_on_while_a_newcomer_gets_in_did_not_look_again() -> None:
    history = overtaken()
    finding = only(history)
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "waits-for-free-lock",
        "lock",
        "liveness",
        3,
    )
    assert finding.examples[0].items() >= {"client": "c2", "at_ms": 3_400, "for_ms": 25, "freed": "expired"}.items()
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "not notified"


@pytest.mark.parametrize(
    "how", [{"times": 2}, {"invoked": 0}, {"invoked": -1}, {"ends": "deleted"}, {"leaves": True}], ids=str
)
def test_a_client_that_sleeps_on_is_in_order_if(how: Any) -> None:
    """It happened twice; the other client had asked before the key expired; a request deleted the key, so that there
    was a message to lose; the client was not subscribed any more."""
    assert longest(overtaken(**how)) is None


@pytest.mark.parametrize(
    ("began", "hit", "number"),
    [
        (3_390, {"cut_links": (("c2", "n1"),)}, None),
        (3_390, {"paused_clients": ("c2",)}, None),
        (3_390, {"nodes": ("n1",)}, None),
        (3_390, {"paused_clients": ("c3",)}, 3),
        (3_300, {"cut_links": (("c2", "n1"),)}, 3),
    ],
    ids=["its link", "itself", "the node", "another client", "before"],
)
def test_a_client_that_a_fault_kept_from_looking_did_not_sleep(
    began: float, hit: dict[str, Any], number: int | None
) -> None:
    """The key expires at 3,400, the first of three times."""
    history = overtaken()
    history.fault("f1", began, began + 30, **hit)
    findings = check(history.recorded()).findings
    assert [finding.count for finding in findings] == ([] if number is None else [number])


@pytest.mark.parametrize(("sleeps", "found"), [(1_326, 25), (1_324, None)])
def test_a_client_that_wakes_up_before_the_newcomer_is_in_may_have_looked_too_late(
    sleeps: float, found: float | None
) -> None:
    assert longest(overtaken(gone=1_300, sleeps=sleeps)) == (found and pytest.approx(found))


@pytest.mark.parametrize("listens", ["before it asks", "once"])
def test_a_subscription_counts_while_it_is_open_whatever_the_client_sent_last(listens: Any) -> None:
    assert longest(overtaken(listens=listens)) == pytest.approx(25)
    assert longest(overtaken(listens="once", since=5_000)) is None, "it subscribed after the first of three times"
    closed = overtaken(listens="once")
    closed.closed[777] = (2_000,)
    assert longest(closed) is None
