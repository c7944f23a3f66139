"""Permits that no client ever gets, although clients wait for them. TTL 1,000 ms, two permits."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import explain
from harness.checkers.unused_permits import Figures, check
from harness.history.cancelled_calls import CancelledCall
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

EVERY = 200.0
"""So often one client comes; it stays for 150 ms."""


def one_by_one(
    times: int = 25, *, waits: float = 150, asked: float = 0, permits: int = 2, workload: str = "semaphore"
) -> History:
    """c1 and c2 are let in by turns. While one is inside, the other waits from `asked` on."""
    history = History(workload=workload, permits=permits, ttl_ms=1_000, nodes=1, clients=3)
    for number in range(1, times + 1):
        at, (who, other) = EVERY * number, ("c1", "c2") if number % 2 else ("c2", "c1")
        history.section(who, at, at + 149, number=number, deadline=at + 1_000, asked=at - 1)
        history.op(other, "acquire", "fail", 100 + number, at + asked, at + asked + waits)
    return history


def full_ms(history: History) -> float:
    answer = check(history.recorded())
    assert isinstance(answer.figures, Figures)
    assert bool(answer.findings) == bool(answer.figures.full_ms) == bool(list(answer.figures.rows()))
    return answer.figures.full_ms


def test_a_permit_that_nobody_gets(golden: Golden) -> None:
    run = one_by_one().recorded()
    answer = check(run)
    assert answer.figures == Figures(2, 1, 25 * 99)
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks) == ("permits-unused", "lock", "liveness")
    assert finding.at_ms == EVERY + 50
    golden(finding.text)
    example = finding.examples[0]
    assert (example["inside"], example["clients"], example["for_ms"]) == (("c1",), ("c2",), 99)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "permits unused"
    golden(told.explanations[0].sentence)


def test_once_all_permits_were_taken_there_is_none_that_nobody_gets() -> None:
    assert full_ms(one_by_one().section("c3", 260, 261, deadline=1_300)) == 0


@pytest.mark.parametrize(
    "how",
    [{"times": 20}, {"waits": 50}, {"asked": 120}, {"permits": 1}],
    ids=["not for two seconds", "let in at once", "asks late", "one permit"],
)
def test_not_if(how: dict[str, Any]) -> None:
    assert full_ms(one_by_one(**how)) == 0


def test_a_lock_with_one_holder_has_no_permits() -> None:
    assert check(one_by_one(workload="fenced-counter").recorded()).figures is None


@pytest.mark.parametrize("taken", ["call with an error", "killed", "died", "not given back"])
def test_a_permit_that_may_be_taken_though_nobody_is_inside_is_no_unused_one(taken: str) -> None:
    """For a lease: of these times, five are out."""
    history = one_by_one(40)
    if taken == "call with an error":
        history.op("c3", "acquire", "info", 1, 1_000, 1_010)
    elif taken == "not given back":
        history.op("c3", "acquire", "ok", 1, 900, 950, deadline_ns=ms(2_000), validity_ms=1_000)
        history.op("c3", "release", "fail", 1, 951, 952)
    else:
        history.end("c3", taken, 1_000)
    assert full_ms(history) == 35 * 99


def test_few_clients_that_wait_for_long_are_too_few() -> None:
    def long_waits(times: int) -> float:
        history = History(workload="semaphore", permits=2, ttl_ms=1_000, nodes=1, clients=2)
        for number in range(1, times + 1):
            history.section("c1", 400 * number, 400 * number + 300, number=number, deadline=400 * number + 900)
            history.op("c2", "acquire", "fail", number, 400 * number, 400 * number + 300)
        return full_ms(history)

    assert long_waits(19) == 0
    assert long_waits(20) == 20 * 250


@pytest.mark.parametrize(("stays", "full"), [(225, 20 * 175), (224, 0)])
def test_clients_that_wait_for_longer_beside_fewer_clients_are_in_each_others_way(stays: float, full: float) -> None:
    """c2 has waited for 50 ms at each 400 ms, and waits for 350 ms more; for half of that time c1 is inside."""
    history = History(workload="semaphore", permits=2, ttl_ms=1_000, nodes=1, clients=2)
    for number in range(1, 21):
        at = 400 * number
        history.section("c1", at, at + stays, number=number, deadline=at + 900)
        history.op("c2", "acquire", "fail", number, at, at + 400)
    assert full_ms(history) == full


def test_what_a_cancelled_call_left_may_be_a_permit() -> None:
    run = one_by_one(40).recorded()
    vars(run)["cancelled"] = (CancelledCall("c3", "k1", ms(1_000), ms(1_100), ms(2_000)),)
    answer: Any = check(run)
    assert answer.figures.full_ms == 35 * 99


def test_each_key_is_for_itself() -> None:
    history = one_by_one().section("c3", 260, 261, key="k2", deadline=1_300)
    assert full_ms(history) == 25 * 99


def test_who_outlives_its_lease_has_no_permit_any_more() -> None:
    """c3 stays for long, and another client may get in when its lease is over: never two within their leases."""
    history = one_by_one(40)
    history.section("c3", 155, 3_000, number=1, deadline=190)
    assert full_ms(history) == 40 * 99
    assert {len(example["inside"]) for example in check(history.recorded()).findings[0].examples} == {1}
