"""A free lock that waits for an entry in its state, of a client that is gone or of a call that is over."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from fencepost.history import ClientEnd, task_names
from harness.checkers.explained import explain
from harness.checkers.free_waits import check
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.free_waits import FREE, asks, freed, longest, only, waits
from tests.judge.histories import History, ms

C3, C4 = "of-client-3", "of-client-4"
WAITS = (60, "c3", f"RPUSH k1:queue {C3}")
"""The place in the queue of a client that dies at 90."""
BEFORE = ((30, "c5", "RPUSH k1:queue of-client-5"), (35, "c5", "LREM k1:queue 0 of-client-5"))
"""Another client took its place in the queue, and gave it back."""


def queue(
    *did: tuple[float, str, str],
    before: Any = BEFORE,
    script: bool = False,
    how: Any = "killed",
    ttl_ms: int = 400,
    until: float = 3000,
    tasks: int = 1,
) -> History:
    """c2 asks in vain until 3,000, every 300 ms. What clients do to the queue: when, and by which words. `how`: c3 ends
    at 90."""
    history = (
        freed(clients=5, ttl_ms=ttl_ms, tasks=tasks)
        .op("c4", "acquire", "fail", 1, 1, 1900)
        .op("c4", "acquire", "fail", 2, 1901, 3100)
    )
    for at, client, words in (*before, *did):
        _, key, *_ = words.split()
        history.request(client, "n1", f"EVAL {words}" if script else words, at, at + 0.5, reply="1")
        history.seen("n1", "changed", at, key=key).called(words)
    if how is not None:
        first, *others = task_names("c3", tasks)
        history.ends.append(ClientEnd(first, 1, how, ms(90), "acquiring"))
        history.ends += (ClientEnd(other, 1, how, ms(90), "inside") for other in others)
    return asks(waits(until, history=history), 300, until)


def test_a_free_lock_that_waits_for_a_client_that_is_gone_has_less_time(golden: Golden) -> None:
    history = queue(WAITS)
    (example,) = only(history).examples
    run = history.recorded()
    assert (example["for_ms"], example["answers"]) == (3000 - FREE, 9)
    assert example["entry"] == {
        "client": "c3", "node": "n1", "key": "k1:queue", "did": "RPUSH", "at_ms": 60, "died_ms": 90,
    }  # fmt: skip
    (told,) = explain(run, Verdict("violation", "lock", check(run).findings, (), {}), 1)
    assert told.explanations[0].cause == "dead entry"
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize(
    "did",
    [
        (WAITS, (2000, "c4", "LPOP k1:queue")),
        (WAITS, (40, "c4", f"RPUSH k1:queue {C4}"), (500, "c4", "LPOP k1:queue"), (1500, "c2", "LPOP k1:queue")),
        (WAITS, (2000, "c4", f"LREM k1:queue 0 {C3}")),
        (WAITS, (2000, "c4", "LTRIM k1:queue 1 -1")),
        (WAITS, (70, "c4", f"RPUSH k1:queue {C3}")),
        ((60, "c3", f"RPUSH k2:queue {C3}"), (61, "c3", f"LPUSH k1:queue {C3}"), (80, "c3", f"LREM k1:queue 0 {C3}")),
        ((60, "c4", f"RPUSH k1:queue {C4}"),),
    ],
)
def test_an_entry_that_may_be_gone_or_may_be_another_clients_is_none(did: Any) -> None:
    history = queue(*did)
    history.op("c1", "acquire", "fail", 7, 6000, 6001, key="k2")
    assert longest(history) is None


@pytest.mark.parametrize(("ttl_ms", "found"), [(965, 3000 - FREE), (967, None)])
def test_it_has_as_long_as_a_gap_without_a_grant_takes(ttl_ms: int, found: float | None) -> None:
    """Three leases, and not a lease and a second."""
    assert longest(queue(WAITS, ttl_ms=ttl_ms)) == found


def test_the_tasks_of_a_process_die_with_it() -> None:
    assert longest(queue(WAITS, tasks=2)) == 3000 - FREE


def test_a_key_from_which_nothing_was_ever_taken_holds_no_places() -> None:
    assert longest(queue(WAITS, before=BEFORE[:1])) is None


@pytest.mark.parametrize("how", ["finished", "cut-off"])
def test_a_client_that_is_not_gone_may_come_back(how: Any) -> None:
    assert longest(queue(WAITS, how=how)) is None
    assert longest(queue(WAITS, how="died")) == 3000 - FREE


@pytest.mark.parametrize(
    "did",
    [
        ((40, "c4", f"RPUSH k1:queue {C4}"), WAITS, (500, "c4", "LPOP k1:queue")),
        (WAITS, (70, "c4", f"RPUSH k1:queue {C4}"), (500, "c4", f"LREM k1:queue 0 {C4}")),
        (WAITS, (70, "c4", f"LPUSH k1:queue {C4}"), (500, "c4", "LPOP k1:queue")),
        (WAITS, (70, "c4", f"RPUSH k1:queue {C4}"), (500, "c4", "RPOP k1:queue")),
        ((60, "c3", "RPUSH k1:queue 3"), (70, "c4", "RPUSH k1:queue 4")),
    ],
)
def test_an_entry_stays_while_others_take_out_their_own(did: Any) -> None:
    for script in (False, True):
        assert longest(queue(*did, script=script)) == 3000 - FREE


def test_an_entry_of_a_set_stays_while_a_client_takes_out_its_own() -> None:
    did = ((60, "c3", f"ZADD k1:queue 1 {C3}"), (70, "c4", f"ZADD k1:queue 2 {C4}"), (500, "c4", f"ZREM k1:queue {C4}"))
    for script in (False, True):
        assert longest(queue(*did, script=script)) == 3000 - FREE


def test_an_entry_counts_from_the_death_of_its_client_on() -> None:
    late = queue(WAITS)
    late.ends[-1].at_ns = ms(1100)
    assert longest(late) is None


MINE = f"RPUSH k1:queue {C3}"


def given_up(
    *did: Any,
    sent: float = 60,
    answered: float = 700,
    until: float = 3000,
    is_cancelled: bool = True,
    outcome: Literal["info", "fail"] = "info",
    **more: Any,
) -> History:
    """As `queue`, but c3 lives, and its user cancels at 90 the call that took a place in the queue, or that call gives
    up then. What it left may be there until 740. c3 then asks for another key."""
    history = queue((sent, "c3", MINE), *did, how=None, until=until, **more)
    history.op("c3", "acquire", outcome, 1, 55, 90, cancelled=is_cancelled).op(
        "c3", "acquire", "fail", 2, 92, 3050, key="k2"
    )
    return asks(history, answered, 3000, client="c3", since=800)


def test_a_free_lock_that_waits_for_a_cancelled_call_has_less_time(golden: Golden) -> None:
    history = given_up()
    (example,) = only(history).examples
    assert (example["at_ms"], example["for_ms"]) == (740, 3000 - 740)
    assert example["entry"] == {
        "client": "c3", "node": "n1", "key": "k1:queue", "did": "RPUSH", "at_ms": 60, "cancelled_ms": 90,
    }  # fmt: skip
    run = history.recorded()
    (told,) = explain(run, Verdict("violation", "lock", check(run).findings, (), {}), 1)
    assert told.explanations[0].cause == "cancelled entry"
    golden(told.explanations[0].sentence)


def test_a_free_lock_that_waits_for_a_call_that_gave_up_has_less_time(golden: Golden) -> None:
    history = given_up(is_cancelled=False, outcome="fail")
    (example,) = only(history).examples
    assert (example["at_ms"], example["for_ms"], example["entry"]["gave_up_ms"]) == (740, 3000 - 740, 90)
    run = history.recorded()
    (told,) = explain(run, Verdict("violation", "lock", check(run).findings, (), {}), 1)
    assert told.explanations[0].cause == "entry of a refused call"
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ({"until": 2740}, 2000),
        ({"until": 2739}, None),
        ({"outcome": "info"}, None),
        ({"sent": 91}, None),
        ({"answered": 1_100}, None),
    ],
    ids=str,
)
def test_an_entry_is_a_refused_calls_only_if_all_is_on_record(how: Any, found: float | None) -> None:
    assert longest(given_up(is_cancelled=False, **{"outcome": "fail"} | how)) == found


@pytest.mark.parametrize(("until", "found"), [(2740, 2000), (2739, None)])
def test_what_a_cancelled_call_left_may_be_there_for_its_ttl_and_a_gap_more(until: float, found: float | None) -> None:
    assert longest(given_up(until=until)) == found


@pytest.mark.parametrize(
    "how",
    [
        {"is_cancelled": False},
        {"before": BEFORE[:1]},
        {"sent": 91},
        {"answered": 1_100},
    ],
    ids=lambda how: next(iter(how)),
)
def test_an_entry_is_a_cancelled_calls_only_if_all_is_on_record(how: Any) -> None:
    assert longest(given_up(**how)) is None


@pytest.mark.parametrize(
    "did", [(2000, "c3", f"LREM k1:queue 0 {C3}"), (2000, "c3", MINE), (2000, "c4", "LPOP k1:queue")]
)
def test_an_entry_that_was_taken_out_or_put_again_is_not_the_cancelled_calls(did: Any) -> None:
    assert longest(given_up(did)) is None


def test_another_entry_of_the_same_client_is_told_from_the_cancelled_calls() -> None:
    later = "of-client-3-later"
    did = (1_000, "c3", f"RPUSH k1:queue {later}"), (1_100, "c3", f"LREM k1:queue 0 {later}")
    assert longest(given_up(*did)) == 3000 - 740
    assert longest(given_up(did[0], (1_100, "c3", f"LREM k1:queue 0 {C3}"))) is None


def test_the_client_of_a_cancelled_call_must_be_able_to_take_its_entry_out() -> None:
    assert longest(given_up().fault("f", 1_500, 1_600, cut_links=(("c3", "n1"),))) is None
    assert longest(given_up().fault("f", 1_500, 1_600, cut_links=(("c5", "n1"),))) == 3000 - 740
    ended = given_up()
    ended.ends.append(ClientEnd("c3", 1, "finished", ms(2_950)))
    assert longest(ended) is None


LINE = "lock:of:k1"
FIRST = ((10, "c1", f"RPUSH {LINE} of-client-1"), (60, "c3", f"RPUSH {LINE} {C3}"))
GIVEN_BACK = (100, "c1", f"LREM {LINE} 0 of-client-1")


def line(*did: tuple[float, str, str], died: float = 90) -> History:
    """A list is all that the lock keeps, and its first client is inside: c1 was. c2 asks in vain until 3,000. What
    clients do to the list."""
    history = History(ttl_ms=400, nodes=1, clients=5).section("c1", 20, 100, asked=8).watch("n1")
    history.op("c1", "release", "ok", 1, 100, 101)
    for at, client, words in did:
        history.request(client, "n1", words, at, at + 0.5, reply="1")
        history.seen("n1", "changed", at, key=LINE).called(words)
    history.ends.append(ClientEnd("c3", 1, "killed", ms(died), "acquiring"))
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    return asks(waits(3000, history=history), 300, 3000)


@pytest.mark.parametrize("died", [90, 50])
def test_the_first_in_line_that_is_gone_keeps_the_others_out(died: float, golden: Golden) -> None:
    history = line(*FIRST, (70, "c4", f"RPUSH {LINE} {C4}"), GIVEN_BACK, died=died)
    (example,) = only(history).examples
    assert (example["for_ms"], example["is_unused"], example["entry"]["client"]) == (3000 - 101, True, "c3")
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (only(history),), (), {}), 1)
    golden(told.explanations[0].sentence)


def test_a_lock_that_has_a_key_of_its_own_may_be_held_by_an_attempt_that_no_client_knows_of() -> None:
    history = queue(WAITS)
    history.key_events = [event for event in history.key_events if event.event != "deleted"]
    assert longest(history) is None


@pytest.mark.parametrize(
    "did",
    [
        ((50, "c4", f"RPUSH {LINE} {C4}"), *FIRST, GIVEN_BACK),
        (*FIRST, GIVEN_BACK, (200, "c4", f"LREM {LINE} 0 {C3}")),
        FIRST,
    ],
    ids=["one that lives is before it", "it was taken out", "that of c1 is still there"],
)
def test_one_that_is_gone_keeps_only_those_out_that_came_later(did: Any) -> None:
    assert longest(line(*did)) is None
