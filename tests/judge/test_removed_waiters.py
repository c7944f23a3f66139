"""Clients that wait on when another one has taken their entry out of the queue. TTL 400 ms: a gap is 2,000 ms."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import explain
from harness.checkers.removed_waiters import Figures, check
from harness.verdict import Answer, Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

LASTS = 3_000
OFTEN = range(500, 4_500, 40)


def waiting(
    *,
    times: int = 2,
    by: str = "c2",
    named: str = "entry-of-c1-{}",
    grants: int = 5,
    lasts: float = LASTS,
    asks: str = "LINDEX queue -1",
    seen: float = 11,
    again: bool = False,
    outcome: Any = "fail",
) -> History:
    """c1 puts an entry into a queue, which c2 takes out, and asks on who is the first; others get in."""
    history = History(ttl_ms=400, nodes=1, clients=4).watch("n1")
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(80_000), ms(90_000), ms(95_000)
    for number in range(1, times + 1):
        at = 10_000 * number
        more = {"deadline_ns": ms(at + lasts + 300), "validity_ms": 300.0} if outcome == "ok" else {}
        history.op("c1", "acquire", outcome, number, at, at + lasts, **more)
        history.op("c2", "acquire", "fail", number, at + 50, at + 150)
        history.request("c1", "n1", f"LPUSH queue entry-of-c1-{number}", at + 10, at + 11)
        history.seen("n1", "set", at + seen, since=at + 9, key="queue")
        history.request(by, "n1", f"LREM queue 0 {named.format(number)}", at + 100, at + 101, reply="1")
        history.seen("n1", "changed", at + 101, since=at + 99, key="queue")
        history.seen("n1", "deleted", at + 101, since=at + 99, key="queue")
        history.by(history.key_events[-1], len(history.requests) - 1)
        if again:
            history.request("c1", "n1", f"LPUSH queue entry-of-c1-{number}", at + 200, at + 201)
            history.seen("n1", "set", at + 201, since=at + 199, key="queue")
            history.request("c1", "n1", f"LREM queue 0 entry-of-c1-{number}", at + lasts - 5, at + lasts - 4)
            history.seen("n1", "deleted", at + lasts - 4, since=at + lasts - 6, key="queue")
        for turn in range(4):
            looks = at + 500 + 500 * turn
            history.request("c1", "n1", asks, looks, looks + 1, reply="null", did=False)
        for turn in range(grants):
            came = at + 300 + 300 * turn
            history.section("c3", came + 10, came + 100, number=100 * number + turn, asked=came)
            history.request("c3", "n1", f"SET k1 c3-{number}-{turn} NX PX 400", came + 5, came + 6)
            history.seen("n1", "set", came + 6, f"c3-{number}-{turn}", since=came + 4, ttl=400)
            history.request("c3", "n1", "DEL k1", came + 100.2, came + 100.8, reply="1")
            history.seen("n1", "deleted", came + 100.8, since=came + 100.1)
    return history.seen("n1", "blind", 70_000)


def count(history: History) -> int:
    answer = check(history.recorded())
    assert isinstance(answer.figures, Figures)
    assert sum(finding.count for finding in answer.findings) == answer.figures.waits
    return answer.figures.waits


def test_a_client_whose_entry_another_one_took_out_waits_for_nothing() -> None:
    run = waiting().recorded()
    (finding,) = check(run).findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "waits-without-entry",
        "lock",
        "liveness",
        2,
    )
    assert finding.examples[0].items() >= {"client": "c1", "by": "c2", "out_of": "queue", "overtaken": 5}.items()
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "entry removed"
    assert "took its entry out" in told.explanations[0].sentence
    assert "never asked for k1" in told.explanations[0].sentence


def test_the_witness_may_see_an_entry_come_and_go_at_once() -> None:
    assert count(waiting(seen=101)) == 2


def test_a_client_whose_entry_another_one_took_out_may_have_asked_for_the_key_in_vain(golden: Golden) -> None:
    run = expired(before=(("c2", "LREM"),)).recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "entry removed"
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize(
    "how",
    [
        {"times": 1},
        {"by": "c1"},
        {"named": "entry-of-c4-{}"},
        {"grants": 4},
        {"lasts": 2_050},
        {"asks": "SET k1 c1-again NX PX 400"},
        {"again": True},
        {"outcome": "ok"},
    ],
    ids=str,
)
def test_not_if(how: Any) -> None:
    """It happened once; the client took it out itself; it was another one's; few came later and got in; the acquire
    soon ended; it asked for the key; it put an entry there again; it was granted."""
    assert count(waiting(**how)) == 0


def expired(
    *,
    times: int = 2,
    grants: int = 11,
    what: Any = "expired",
    words: str = "entry-of-c1-{}",
    before: Any = (),
    after: Any = (),
    asks: Any = range(500, 4_500, 400),
    bare: int = 0,
    earlier: int = 0,
    last: float = 100,
    elsewhere: bool = False,
    unseen: Any = (),
    outcome: Any = "fail",
    **config: Any,
) -> History:
    """c1 puts an entry into a queue, which expires with it, and asks on; others put their own there, and get in. Of the
    grants, `bare` ones come without an entry, `earlier` ones before c1 waits, and the last of them lasts for `last`.
    `before`, `after`: what a client does to the queue then. `elsewhere`: c1 puts its entry into a queue on n2, too."""
    history = History(**({"ttl_ms": 400, "nodes": 2 if elsewhere else 1, "clients": 4} | config)).watch("n1")
    if elsewhere:
        history.watch("n2")
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(80_000), ms(90_000), ms(95_000)

    def change(at: float, client: str, script: str, words: str, event: Any) -> None:
        history.request(client, "n1", f"EVAL {script} 2 k1 queue {words}", at, at + 1, reply="0")
        did = {"LPOP": "LPOP queue", "PEXPIRE": "PEXPIRE queue", "LREM": f"LREM queue 0 {words}"}.get(script)
        did = did or f"{script} queue {words}"
        history.seen("n1", event, at + 1, since=at - 1, key="queue").called(did)

    def granted(came: float, number: int, entry: str | None, until: float = 100) -> None:
        history.section("c3", came + 10, came + until, number=number, asked=came)
        if entry is not None:
            change(came + 2, "c3", "RPUSH", entry, "set")
            change(came + 4, "c3", "LPOP", "-", "deleted")
        history.request("c3", "n1", f"SET k1 c3-{number} NX PX 400", came + 6, came + 7)
        history.seen("n1", "set", came + 7, f"c3-{number}", since=came + 6, ttl=400)
        history.request("c3", "n1", "DEL k1", came + until + 0.2, came + until + 0.8, reply="1")
        history.seen("n1", "deleted", came + until + 0.8, since=came + until + 0.1)

    for turn in range(earlier):
        granted(1_000 + 300 * turn, 1_000 + turn, f"entry-of-c3-{turn}")
    for number in range(1, times + 1):
        at = 10_000 * number
        more = {"deadline_ns": ms(at + 4_800), "validity_ms": 300.0} if outcome == "ok" else {}
        history.op("c1", "acquire", outcome, number, at, at + 4_500, **more)
        change(at + 10, "c1", "RPUSH", words.format(number), "set")
        if elsewhere:
            history.request("c1", "n2", f"EVAL RPUSH 2 k1 queue {words.format(number)}", at + 12, at + 13, reply="0")
            history.seen("n2", "set", at + 13, since=at + 11, key="queue").called(f"RPUSH queue {words.format(number)}")
        for client, script in before:
            change(at + 30, client, script, f"entry-of-c1-{number}", "changed")
        history.seen("n1", what, at + 100, since=at + 99, key="queue")
        for client, script in after:
            change(at + 150, client, script, f"entry-of-c1-{number}", "set")
        for looks in asks:
            history.request("c1", "n1", f"EVAL look 2 k1 queue x{looks}", at + looks, at + looks + 1, did=False)
        for turn in range(grants):
            entry = f"entry-of-c3-{number}-{turn}" if (number, turn) >= (1, bare) else None
            granted(at + 300 + 300 * turn, 100 * number + turn, entry, last if turn == grants - 1 else 100)
    for since, until in unseen:
        history.seen("n1", "blind", since).seen("n1", "watching", until, "n1-first")
    history.key_events.sort(key=lambda event: event.at_ns)
    return history.seen("n1", "blind", 70_000)


@pytest.mark.parametrize("config", [{}, {"workload": "semaphore", "permits": 2}], ids=str)
@pytest.mark.parametrize("what", ["expired", "lost"])
def test_a_client_whose_entry_went_with_its_key_waits_for_nothing(what: Any, config: Any, golden: Golden) -> None:
    run = expired(what=what, before=(("c4", "PEXPIRE"),), **config).recorded()
    (finding,) = check(run).findings
    assert (finding.kind, finding.blame, finding.count) == ("waits-without-entry", "lock", 2)
    assert finding.examples[0].items() >= {"client": "c1", "went": what, "out_of": "queue", "overtaken": 11}.items()
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "entry lost"
    if not config:
        golden(told.explanations[0].sentence)


@pytest.mark.parametrize(
    "how",
    [
        {"times": 1},
        {"words": "entry-of-any"},
        {"before": (("c2", "LPOP"),)},
        {"before": (("c2", "LMOVE"),)},
        {"after": (("c1", "RPUSH"),)},
        {"after": (("c2", "RPUSH"),)},
        {"grants": 2},
        {"grants": 9},
        {"bare": 1},
        {"asks": range(500, 2_100, 400)},
        {"asks": range(2_100, 4_500, 400)},
        {"outcome": "ok"},
        {"elsewhere": True},
    ],
    ids=str,
)
def test_it_may_have_its_turn_or_may_have_had_it_if(how: Any) -> None:
    """It happened once; the word is not its own; another one took it out, or moved it, first; it was put there again;
    few got in; too few to know the way in; one got in without an entry; it asked only at first, or only at last; it
    was granted; it had an entry on another node."""
    assert count(expired(**how)) == 0


def passed_by(*, fault: Any = (), **more: Any) -> History:
    """Only one later acquire gets in, and leaves at 400 ms: then the lock is free, and c1 asks on in vain."""
    made = expired(**{"grants": 1, "earlier": 20, "before": (("c4", "PEXPIRE"),)} | more)
    return made.fault("f1", *fault, nodes=("n1",)) if fault else made


def test_a_client_without_an_entry_waits_for_nothing_also_when_the_lock_is_free(golden: Golden) -> None:
    run = passed_by().recorded()
    (finding,) = check(run).findings
    assert (finding.kind, finding.count) == ("waits-without-entry", 2)
    assert finding.examples[0].items() >= {"client": "c1", "overtaken": 1, "free_ms": 4_099}.items()
    golden(finding.text)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize(
    ("how", "number"),
    [
        ({"earlier": 17}, 0),
        ({"last": 3_945, "asks": OFTEN}, 2),
        ({"last": 3_955, "asks": OFTEN}, 0),
        ({"last": 3_400, "asks": [500, 600, *range(2_100, 4_300, 550), 4_400]}, 0),
        ({"fault": (10_500, 14_450)}, 0),
        ({"fault": (10_500, 12_000)}, 2),
    ],
    ids=[
        *("the way in is not known", "for long enough", "for too short a time", "it asked for nothing meanwhile"),
        *("a fault", "a short fault"),
    ],
)
def test_the_lock_was_free_while_it_asked(how: Any, number: int) -> None:
    assert count(passed_by(**how)) == number


def test_an_acquire_that_was_not_watched_may_have_had_an_entry() -> None:
    assert count(expired(bare=1, unseen=((10_305, 10_390),))) == 2


def test_without_the_record_nothing_is_told() -> None:
    history = waiting()
    history.wire = False
    assert check(history.recorded()) == Answer()
