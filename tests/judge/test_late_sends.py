"""Releases and extensions that go out late, because waiters of the same process hold all connections. TTL 2,000 ms."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import explain
from harness.checkers.late_sends import Figures, check
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

OWN, OTHER = 501, 502
"""The connections of c1."""


def starved(
    *,
    times: int = 3,
    late: float = 1_200,
    blocks: str = "BLPOP k1:wake 5",
    idle: bool = False,
    sends: str = "",
    sent_at: float = 500,
    freed: float = 20,
    over: int = OWN,
    call: Any = "release",
    blocked_from: float = 10,
) -> History:
    """c1@1 is inside and calls at 200; its DEL goes out so much later. c1@2 waits, on one connection and on another.
    The one over which DEL goes was given back shortly before. All this every 5,000 ms."""
    history = History(ttl_ms=2_000, nodes=1, clients=2, tasks=2)
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    history.watch("n1")
    for number in range(1, times + 1):
        at = 5_000 * number
        sent = at + 200 + late
        history.op("c1@1", "acquire", "ok", number, at - 1, at + 2, deadline_ns=ms(at + 2_000), validity_ms=2_000)
        done = {"deadline_ns": ms(sent + 2_000), "validity_ms": 2_000.0} if call == "extend" else {}
        history.op("c1@1", call, "ok", number, at + 200, sent + 2, **done)
        history.op("c1@2", "acquire", "fail", number, at + 5, sent + 400)
        history.request("c1", "n1", f"SET k1 v{number} NX PX 2000", at, at + 1, connection=OWN)
        history.seen("n1", "set", at + 1, f"v{number}", since=at, ttl=2_000)
        block = {"did": False, "reply": "null"}
        history.request("c1", "n1", blocks, at + blocked_from, sent - freed, connection=OWN, **block)
        history.request("c1", "n1", blocks, at + 11, sent + 300, connection=OTHER, **block)
        if idle:
            history.request("c1", "n1", "GET k1", at + 12, at + 13, connection=503, did=False)
        if sends:
            history.request("c1", "n1", sends, at + sent_at, at + sent_at + 1, connection=OTHER, did=False)
        words = "PEXPIRE k1 2000" if call == "extend" else "DEL k1"
        history.request("c1", "n1", words, sent, sent + 1, connection=over, reply="1")
        history.seen("n1", "prolonged" if call == "extend" else "deleted", sent + 1, f"v{number}", since=sent)
        if call == "extend":
            history.request("c1", "n1", "DEL k1", sent + 500, sent + 501, connection=over, reply="1")
            history.op("c1@1", "release", "ok", number, sent + 499, sent + 502).seen("n1", "deleted", sent + 501)
    return history


def count(history: History) -> int:
    history.seen("n1", "blind", 80_000)
    answer = check(history.recorded())
    found = sum(each.count for each in answer.findings)
    assert answer.figures is not None
    assert answer.figures.requests == found
    return found


def test_a_release_that_waits_for_the_connections_of_waiters(golden: Golden) -> None:
    history = starved()
    assert count(history) == 3
    run = history.recorded()
    (finding,) = check(run).findings
    assert (finding.kind, finding.blame, finding.breaks) == ("sent-late", "lock", "liveness")
    golden(finding.text)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "connections taken"
    golden(told.explanations[0].sentence)


def test_so_does_an_extension_and_half_a_lease_is_late() -> None:
    assert count(starved(call="extend")) == 3
    assert count(starved(late=1_000.2)) == 3
    assert count(starved(sends="GET k1", sent_at=1_390)) == 3, "the waiter that was over went on first"


def test_a_subscription_takes_a_connection_for_good() -> None:
    history = starved().request("c1", "n1", "SUBSCRIBE k1:free", 100, 101, connection=503, did=False)
    assert count(history) == 3
    history = starved().request("c1", "n1", "SUBSCRIBE k1:free", 100, 101, connection=503, did=False)
    assert count(history.request("c1", "n1", "UNSUBSCRIBE", 200, 201, connection=503, did=False)) == 0


@pytest.mark.parametrize(
    "how",
    [
        {"times": 2},
        {"late": 998},
        {"idle": True},
        {"sends": "GET k1"},
        {"freed": 60},
        {"over": 504},
        {"blocks": "GET k1"},
        {"blocked_from": 300},
    ],
    ids=str,
)
def test_not_if(how: Any) -> None:
    """It happened twice; it was not late; a connection was idle; the client sent something else; it could have sent
    earlier; it went over a new connection; nothing blocked, or not yet."""
    history = starved(**how)
    history.seen("n1", "blind", 80_000)
    assert check(history.recorded()).figures == Figures(0, None)


def test_not_while_a_fault_is_in_the_way() -> None:
    assert count(starved().fault("f", 5_300, 5_400, cut_links=(("c1", "n1"),))) == 0
    assert count(starved(times=4).fault("f", 5_300, 5_400, cut_links=(("c1", "n1"),))) == 3
    history = starved()
    history.kept_waiting["c1@1"] = [(ms(5_300), ms(5_700))]
    assert count(history) == 0


def test_without_the_record_nothing_is_told() -> None:
    history = starved()
    history.not_recorded.add("n1")
    assert check(history.recorded()).figures is None
