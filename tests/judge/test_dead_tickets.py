"""Numbers that a client drew and never used, while others wait behind it. TTL 400 ms: who waits looks again within two
seconds."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.history import ClientEnd
from harness.checkers.explained import explain
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.free_waits import asks, judged, only
from tests.judge.histories import History, ms


def raises(history: History, client: str, key: str, number: int, at: float) -> None:
    history.request(client, "n1", f"EVAL raise 1 {key}", at, at + 0.4, reply=str(number))
    event = "set" if number == 1 else "changed"
    history.seen("n1", event, at + 0.5, str(number), since=at - 0.5, key=key).called(f"INCR {key}")


def drawn(
    *,
    grants: int = 10,
    how: str = "killed",
    until: float = 6_000,
    turn: int = 0,
    raised: Any = None,
    out: str = "k1:out",
    passed: float | None = None,
    skipped: float | None = None,
) -> History:
    """c1 gets the lock time and again: its acquire draws a number, its release raises the other count. Then c3 draws
    one; how did that end? c2 draws the next one, and asks whether it is its turn. `turn`: by how much the other count
    is ahead. `raised`: by number, how long after the acquire began it is raised, if not in the release. `out`: what it
    is called. `passed`, `skipped`: when it is raised once more, and then once more."""
    history = History(ttl_ms=400, nodes=1, clients=4).watch("n1")
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    for number in range(1, grants + 1):
        at = 20 * number
        history.section("c1", at + 4, at + 10, number=number, asked=at)
        raises(history, "c1", "k1:next", number, at + 1)
        history.request("c1", "n1", f"SET k1 c1-{number} NX PX 400", at + 2, at + 2.4)
        history.seen("n1", "set", at + 2.5, f"c1-{number}", since=at + 1.9, ttl=400)
        raises(history, "c1", out, number + turn, at + (raised or {}).get(number, 11))
        history.request("c1", "n1", "DEL k1", at + 12, at + 12.3, reply="1").seen(
            "n1", "deleted", at + 12.5, since=at + 12
        )
    history.op("c4", "acquire", "fail", 9, 450, 455, key="k2")
    raises(history, "c3", "k1:next", grants + 1, 501)
    if how == "refused":
        history.op("c3", "acquire", "fail", 1, 500, 600)
    elif how == "overstays":
        history.section("c3", 510, 560, asked=500, deadline=850)
        history.request("c3", "n1", "SET k1 c3-1 NX PX 400", 505, 505.4)
        history.seen("n1", "set", 505.5, "c3-1", since=504, ttl=400).seen("n1", "expired", 906, since=905)
    elif how == "killed":
        history.ends.append(ClientEnd("c3", 1, "killed", ms(600), "acquiring"))
    history.op("c2", "acquire", "fail", 1, 1_000, until)
    raises(history, "c2", "k1:next", grants + 2, 1_001)
    if how == "refused":
        asks(history, 300, until, since=1_050, client="c3")
    if passed is not None:
        raises(history, "c4", "k1:out", grants + turn + 1, passed)
    if skipped is not None:
        raises(history, "c4", "k1:out", grants + turn + 2, skipped)
    return asks(history, 200, until, since=1_100)


def cause_of(history: History) -> tuple[str | None, str]:
    findings = judged(history).findings
    if not findings:
        return None, ""
    (told,) = explain(history.recorded(), Verdict("violation", "lock", findings, (), {}), 1)
    return str(told.explanations[0].cause), told.explanations[0].sentence


@pytest.mark.parametrize("how", ["killed", "refused", "overstays"])
def test_clients_wait_for_a_number_that_never_comes(how: str, golden: Golden) -> None:
    history = drawn(how=how, until=5_000)
    finding = only(history)
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "waits-for-free-lock",
        "lock",
        "liveness",
        1,
    )
    cause, sentence = cause_of(history)
    assert cause == ("entry of a refused call" if how == "refused" else "dead entry")
    golden(sentence)


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"how": "lives"}, None),
        ({"grants": 9}, None),
        ({"turn": 1}, None),
        ({"raised": dict.fromkeys(range(1, 11), 3)}, None),
        ({"raised": {5: 13}}, "dead entry"),
        ({"raised": {5: 3}}, None),
        ({"raised": {5: 26}}, None),
        ({"out": "k2:out"}, None),
        ({"passed": 1_200}, None),
        ({"passed": 4_000}, None),
        ({"until": 2_900}, None),
        ({"until": 9_000, "how": "lives"}, "not let in"),
    ],
    ids=[
        *("its client may come yet", "few grants", "the other count says something else", "an acquire raises it"),
        *("late, but before the next", "once an acquire raised it", "one got in before its turn", "of another key"),
        *("its turn has passed", "it passes in the end", "for too short a time", "for very long"),
    ],
)
def test_nothing_is_known_of_a_number_if(more: Any, cause: str | None) -> None:
    assert cause_of(drawn(**{"until": 5_000} | more))[0] == cause


def test_a_client_waits_though_its_own_turn_has_passed(golden: Golden) -> None:
    cause, sentence = cause_of(drawn(how="lives", passed=1_100, skipped=1_110, until=5_000))
    assert cause == "turn passed"
    golden(sentence)


@pytest.mark.parametrize("more", [{"skipped": None}, {"grants": 9}, {"until": 3_300}], ids=str)
def test_its_turn_may_come_yet(more: Any) -> None:
    assert cause_of(drawn(**{"how": "lives", "passed": 1_100, "skipped": 1_110, "until": 5_000} | more))[0] is None


def test_a_turn_that_has_passed_keeps_no_other_client_out() -> None:
    history = drawn(how="lives", passed=1_100, skipped=1_110, until=5_000)
    history.op("c4", "acquire", "fail", 2, 1_200, 5_000)
    raises(history, "c4", "k1:next", 13, 1_201)
    history.key_events.sort(key=lambda event: event.at_ns)
    (finding,) = judged(asks(history, 200, 5_000, since=1_300, client="c4")).findings
    assert (finding.count, finding.examples[0]["client"]) == (1, "c2")
