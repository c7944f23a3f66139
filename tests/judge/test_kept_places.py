"""Places of a semaphore that stay taken when the lease of their client is over. TTL 100 ms: one is over 250 ms after
its client last changed the key."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.checkers.explained import explain
from harness.checkers.kept_places import Figures, check
from harness.verdict import Answer, Verdict
from tests.judge.histories import History, ms

DIED = 205
"""When c2 was killed inside. It had changed the key last at 200.5."""
OVER = 450.5
ATTEMPTS = (1_000, 1_100, 1_200)


def change(
    history: History, client: str, words: str, at: float, *nodes: str, event: str = "changed", ttl: int = 1_000
) -> History:
    """What a script of the client called on each of these nodes; on n1 if none is named. The key has this `ttl` then,
    in milliseconds."""
    for node in nodes or ("n1",):
        history.request(client, node, f"EVAL it 1 {words.split()[1]}", at, at + 0.5)
        history.seen(node, event, at + 0.5, since=at, key=words.split()[1], ttl=ttl).called(words)
    return history


def inside(history: History, client: str, at: float, until: float, number: int = 1) -> History:
    """What it was granted lasts until then. The place is put in a millisecond before."""
    return history.op(client, "acquire", "ok", number, at - 2, at, deadline_ns=ms(until), validity_ms=until - at)


def dead(*nodes: str, gives: str = "ZREM k1 a", by: tuple[str, Any] = ("c1", "release"), **config: Any) -> History:
    """c1 was inside, and this call gave its place back. c2 was killed inside."""
    history = History(**{"workload": "semaphore", "permits": 2, "nodes": 1, "clients": 4} | config)
    history.watch(*history.config.node_names)
    change(inside(history, "c1", 10, 110), "c1", "ZADD k1 1 a", 9, *nodes, event="set")
    client, f = by
    change(history.op(client, f, "ok", 1, 20, 22), client, gives, 21, *nodes)
    change(inside(history, "c2", 201, 295), "c2", "ZADD k1 2 b", 200, *nodes)
    return history.end("c2", "killed", DIED)


def used(history: History, *nodes: str, client: str = "c3", at: float = 500, until: float = 3_000) -> History:
    """This client is inside from then on, and prolongs the key."""
    change(inside(history, client, at, until), client, f"ZADD k1 3 {client}", at - 1, *nodes)
    for node in nodes or ("n1",):
        history.request(client, node, "PEXPIRE k1 9000", at + 10, at + 10.5)
        history.seen(node, "prolonged", at + 10.5, since=at + 10, ttl=9_000)
    return history


def refused(history: History, *times: float, client: str = "c1") -> History:
    """Attempts of 5 ms, to which each node says no."""
    for number, at in enumerate(times or ATTEMPTS, 2):
        history.op(client, "acquire", "fail", number, at, at + 5)
        for node in history.config.node_names:
            history.request(client, node, "EVAL it 1 k1", at + 1, at + 2, reply="null", did=False)
    return history


def test_a_place_in_a_key_that_the_attempt_did_not_ask_for_keeps_none_out() -> None:
    """As that of another lock, whose name begins alike."""
    history = used(dead())
    for number, at in enumerate(ATTEMPTS, 2):
        history.op("c1", "acquire", "fail", number, at, at + 5)
        history.request("c1", "n1", "EVAL it 1 k1:other", at + 1, at + 2, reply="null", did=False)
    assert found(history) == (0, 0)


def judged(history: History) -> Answer:
    for node in history.config.node_names:
        if any(event.node == node for event in history.key_events):
            history.seen(node, "blind", 9_000)
    return check(history.recorded())


def found(history: History) -> tuple[int, int]:
    """The places, and the attempts that they kept out."""
    answer = judged(history)
    assert isinstance(answer.figures, Figures)
    assert sum(finding.count for finding in answer.findings) == answer.figures.places
    return answer.figures.places, answer.figures.attempts


def test_a_place_that_others_prolong_outlasts_the_lease_of_its_client() -> None:
    history = refused(used(dead()))
    answer = judged(history)
    assert answer.figures == Figures(1, 3)
    (row,) = answer.figures.rows()
    assert "3 attempts" in row.text
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks) == ("place-outlasts-lease", "lock", "liveness")
    assert finding.at_ms == ATTEMPTS[0]
    (example,) = finding.examples
    assert example.items() >= {"client": "c2", "where": "k1", "node": "n1", "attempts": 3, "by": "c3"}.items()
    assert (example["put_ms"], example["over_ms"], example["until_ms"]) == (200.5, OVER, ATTEMPTS[-1] + 5)
    (told,) = explain(history.recorded(), Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "place kept"
    assert "c3 prolonged it last" in told.explanations[0].sentence


def test_the_other_client_that_prolonged_the_key_last_is_named() -> None:
    """c4 comes and goes later without prolonging it, and c2 prolongs it in its next life."""
    history = inside(used(dead()), "c4", 600, 690)
    change(change(history, "c4", "ZADD k1 3 d", 599, ttl=8_900), "c4", "ZREM k1 d", 610, ttl=8_880)
    history.request("c2", "n1", "PEXPIRE k1 9000", 700, 700.5).seen("n1", "prolonged", 700.5, since=700, ttl=9_000)
    (finding,) = judged(refused(history)).findings
    assert finding.examples[0]["by"] == "c3"


def test_a_key_that_nothing_prolongs_is_told_without_a_client() -> None:
    history = refused(change(inside(dead(), "c3", 500, 3_000), "c3", "ZADD k1 3 c3", 499))
    for event in history.key_events:
        event.ttl_ms = 9_000 - 2 * (event.at_ns - ms(0)) // 1_000_000
    (finding,) = judged(history).findings
    assert "by" not in finding.examples[0]


def test_without_such_places_there_are_none() -> None:
    assert list(Figures(0, 0).rows()) == []
    assert found(refused(used(used(dead(), client="c4")))) == (0, 0)


@pytest.mark.parametrize(("first", "number"), [(OVER, (1, 3)), (OVER - 0.1, (0, 0))])
def test_a_place_is_over_two_leases_after_its_client_last_changed_the_key(
    first: float, number: tuple[int, int]
) -> None:
    assert found(refused(used(dead(), at=350), first, *ATTEMPTS[1:])) == number


@pytest.mark.parametrize("words", ["ZADD k1 4 b", "PEXPIRE k1 100"])
@pytest.mark.parametrize(("at", "number"), [(950, (0, 0)), (600, (1, 3))])
def test_a_client_that_extends_its_lease_keeps_its_place(words: str, at: float, number: tuple[int, int]) -> None:
    """c2 lives on, and changes the key last at that time."""
    history = used(dead())
    history.ends.clear()
    history.op("c2", "extend", "fail", 1, at - 2, at + 2).end("c2", "killed", at + 3)
    assert found(refused(change(history, "c2", words, at))) == number


def test_a_client_that_is_inside_or_within_its_lease_has_its_place() -> None:
    def history(until: float, ended: float) -> History:
        made = used(dead())
        change(inside(made, "c4", 480, until), "c4", "ZADD k1 2 d", 479)
        made.ops["c2", 1].clear()
        return refused(change(made, "c1", "ZREM k1 b", 470).op("c4", "release", "ok", 1, ended, ended + 1))

    assert found(history(until=580, ended=590)) == (1, 3)
    assert found(history(until=580, ended=1_100)) == (0, 0)
    assert found(history(until=1_100, ended=590)) == (0, 0)


@pytest.mark.parametrize(("taken_out", "number"), [(None, (1, 3)), (5_000, (0, 0))])
def test_without_a_promised_time_a_place_is_over_if_nothing_ever_takes_it_out(
    taken_out: float | None, number: tuple[int, int]
) -> None:
    history = refused(used(dead())).op("c3", "release", "ok", 1, 3_000, 3_001)
    for ops in history.ops.values():
        ops[:] = [msgspec.structs.replace(op, deadline_ns=None, validity_ms=None) for op in ops]
    if taken_out is not None:
        change(history, "c4", "ZREM k1 b", taken_out)
    assert history.recorded().is_open_ended
    assert found(history) == number


def test_not_if_the_attempt_purges_the_place() -> None:
    def history(purged: float) -> History:
        return change(refused(used(dead())), "c1", "ZREM k1 b", purged)

    assert found(history(1_203)) == (0, 0)
    assert found(history(1_206)) == (1, 3)


def test_not_if_a_client_has_come_in_during_the_attempt() -> None:
    """c3 leaves after two attempts, and c4 comes."""
    history = change(
        refused(used(dead(), until=1_150)).op("c3", "release", "ok", 1, 1_150, 1_152), "c3", "ZREM k1 c3", 1_151
    )
    assert found(change(inside(history, "c4", 1_203, 3_000), "c4", "ZADD k1 3 d", 1_202)) == (0, 0)


def test_an_attempt_that_was_not_refused_was_not_kept_out() -> None:
    history = refused(used(dead()))
    history.ops["c1", 1][-1].outcome = "info"
    assert found(history) == (0, 0)


def test_not_if_a_live_client_has_taken_it_by_the_end_of_the_attempt() -> None:
    """The place is free for the others, but one of these was faster."""
    history = used(dead())
    for at in ATTEMPTS:
        change(inside(history, "c4", at + 3, at + 50, at), "c4", "ZADD k1 3 d", at + 2)
        change(history.op("c4", "release", "ok", at, at + 50, at + 52), "c4", "ZREM k1 d", at + 51)
    assert found(refused(history)) == (0, 0)


@pytest.mark.parametrize("is_let_in", [True, False])
def test_what_waits_takes_a_place_too(is_let_in: bool) -> None:
    """c4 has put its place in and waits. It is let in later, or looks again from time to time."""
    history = used(dead()).op("c4", "acquire", "ok" if is_let_in else "fail", 1, 900, 1_300, validity_ms=90.0)
    change(history, "c4", "ZADD k1 3 d", 950)
    for at in () if is_let_in else (1_099, 1_199):
        change(history, "c4", "ZADD k1 3 d", at)
    assert found(refused(history)) == (0, 0)


@pytest.mark.parametrize(
    "how",
    [
        {"gives": "ZADD k1 2 z"},
        {"by": ("c1", "extend")},
        {"by": ("c4", "release")},
    ],
    ids=str,
)
def test_a_key_from_which_no_release_takes_its_own_holds_no_places(how: Any) -> None:
    """Nothing is taken out of it; an extension does; or the release of another client."""
    assert found(refused(used(dead(**how)))) == (0, 0)


def test_a_key_into_which_only_refused_acquires_put_anything_holds_no_places() -> None:
    history = refused(used(dead()))
    for ops in history.ops.values():
        for op in ops:
            op.outcome = "fail" if op.f == "acquire" else op.outcome
    assert found(history) == (0, 0)


def test_what_no_call_put_in_is_of_no_client_that_is_gone() -> None:
    history = used(dead())
    history.ops["c2", 1].clear()
    assert found(refused(history)) == (0, 0)


@pytest.mark.parametrize(("blind", "number"), [(300, (0, 0)), (150, (1, 3))])
def test_a_place_is_unknown_after_its_node_was_out_of_sight(blind: float, number: tuple[int, int]) -> None:
    """The key is there when the node is in sight again. Others may have taken the place out meanwhile."""
    history = refused(used(dead()))
    later = [event for event in history.key_events if event.at_ns > ms(blind)]
    del history.key_events[-len(later) :]
    history.seen("n1", "blind", blind).seen("n1", "seen", blind + 2, ttl=1_000).watch("n1", at=blind + 3)
    history.key_events += later
    assert found(history) == number


def test_an_exclusive_lock_has_no_places() -> None:
    assert judged(refused(used(dead(workload="fenced-counter", permits=1)))) == Answer()
    assert judged(refused(used(dead(workload="fenced-counter", permits=2)))) == Answer()


def test_a_semaphore_with_one_permit_has_one_place() -> None:
    assert found(refused(dead(permits=1))) == (1, 3)
    assert found(refused(used(dead(permits=1)))) == (0, 0)


def indexed(history: History) -> History:
    """Whom the lock has let in, or may let in, is in another key, too: c1 was, and a release took it out."""
    change(history, "c1", "ZADD index:k1 1 a", 9.2, event="set")
    return change(history, "c1", "ZREM index:k1 a", 21.2)


def tried(history: History, *clients: str, asked: str = "k1", outcome: Any = "fail") -> History:
    """Each of these clients tries at the same times, puts itself into the index, and takes itself out at the end."""
    for number, at in enumerate(ATTEMPTS, 5):
        for place, client in enumerate(clients):
            begun = at + place / 10
            history.op(client, "acquire", outcome, number, begun, begun + 5)
            change(history, client, f"ZADD index:k1 1 {client}", begun + 1)
            history.request(client, "n1", f"EVAL it 1 {asked}", begun + 2, begun + 3, reply="null", did=False)
            change(history, client, f"ZREM index:k1 {client}", begun + 4)
    return history


def test_clients_that_ask_in_vain_as_well_keep_none_out() -> None:
    """That they are in another key of the lock for as long as they try takes no place."""
    assert found(tried(indexed(dead(permits=1)), "c3", "c4")) == (1, 6)


@pytest.mark.parametrize("how", [{"asked": "k1:other"}, {"outcome": "info"}], ids=str)
def test_what_waits_in_another_key_takes_a_place_until_it_has_asked_in_vain(how: Any) -> None:
    """c4 was first in the queue and was late, say, or was let in without hearing of it."""
    history = tried(indexed(dead(permits=1)), "c4", **how)
    assert found(tried(history, "c3")) == (0, 0)


def test_what_waits_in_a_key_that_holds_no_places_takes_a_place_too() -> None:
    """No release takes anything out of it."""
    history = dead(permits=1)
    assert found(tried(tried(history, "c4", outcome="info"), "c3")) == (0, 0)


def test_a_client_whose_place_is_in_two_keys_has_one_place() -> None:
    """c3 is inside, and in the index, too."""
    history = change(indexed(used(dead())), "c3", "ZADD index:k1 1 c3", 499.2)
    assert found(refused(history)) == (1, 3)
    history = change(inside(history, "c4", 700, 3_000), "c4", "ZADD index:k1 1 c4", 699)
    assert found(refused(history)) == (0, 0)


def test_without_a_record_of_the_links_nothing_is_told() -> None:
    history = refused(used(dead()))
    history.wire = False
    assert judged(history) == Answer()
    history = refused(used(dead()))
    history.not_recorded.add("n1")
    assert judged(history) == Answer()


def test_two_attempts_are_too_few() -> None:
    assert found(refused(used(dead()), *ATTEMPTS[:2])) == (0, 0)


def test_an_attempt_for_another_key_was_not_kept_out() -> None:
    """What another key holds keeps no client out of this one."""
    history = refused(used(dead()))
    history.ops["c1", 1][-1].key = "k2"
    assert found(history) == (0, 0)


FIVE = ("n1", "n2", "n3", "n4", "n5")


@pytest.mark.parametrize(("full", "number"), [(3, (3, 3)), (2, (0, 0))])
def test_no_majority_of_the_nodes_may_be_left(full: int, number: tuple[int, int]) -> None:
    assert found(refused(used(dead(*FIVE[:full], nodes=5), *FIVE[:full]))) == number


def test_clients_that_fill_one_node_may_have_kept_it_out() -> None:
    history = used(dead(*FIVE[:3], "n5", nodes=5), *FIVE[:3])
    for client, at in (("c3", 600), ("c4", 610)):
        change(inside(history, client, at, 3_000, 7), client, f"ZADD k1 3 {client}", at - 1, "n5")
    assert found(refused(history)) == (0, 0)


def unanswered(history: History, *, is_sent: bool) -> History:
    """Attempts that the node never had, or never answered."""
    for number, at in enumerate(ATTEMPTS, 2):
        history.op("c1", "acquire", "fail", number, at, at + 50)
        arrived = at + 1 if is_sent else None
        history.request("c1", "n1", "EVAL it 1 k1", arrived, sent=at + 0.9, reply=None, did=False)
    return history


def test_an_attempt_that_no_node_answered_was_kept_out_by_none() -> None:
    """A correct semaphore purges what is over when it is asked, and it was not: the client was cut off, or the node
    was hung."""
    cut = unanswered(used(dead()), is_sent=False).fault("f", 900, 1_300, cut_links=(("c1", "n1"),))
    assert found(cut) == (0, 0)
    hung = unanswered(used(dead()), is_sent=True).fault("f", 900, 1_300, nodes=("n1",))
    assert found(hung) == (0, 0)
    for request in hung.requests[-3:]:
        late = request["from_client_ns"] + 100_000_000
        request |= {"reply": "null", "from_node_ns": late, "to_client_ns": late}
    assert found(hung) == (0, 0), "it answered when the attempts were over"


def test_an_error_is_no_answer() -> None:
    history = refused(used(dead()))
    for request in history.requests:
        if request["reply"] == "null":
            request["reply"] = '{"error":"LOADING the data"}'
    assert found(history) == (0, 0)


def test_a_node_that_is_out_of_sight_for_good_may_hold_anything() -> None:
    """The record of it ends before the attempts, so others may have taken the place out and be inside."""
    history = refused(used(dead())).seen("n1", "blind", 900)
    assert check(history.recorded()).figures == Figures(0, 0)


def test_a_wrong_clock_may_keep_a_place_for_longer() -> None:
    history = refused(used(dead())).fault("f", 300, 1_300, wrong_clocks=("n1",))
    assert found(history) == (0, 0)
