"""What was at stake in a run, from literal histories."""

from __future__ import annotations

import pytest

from harness.campaign.example_timeline import other_moment_of
from harness.campaign.exposure import MinorityOutage, Stakes, stakes_of
from harness.checkers.judge import judge
from tests.judge.histories import History


def stakes(history: History) -> Stakes:
    run = history.recorded()
    return stakes_of(run, judge(run))


def test_calls_are_counted_by_verb_and_outcome() -> None:
    history = History().section("c1", 5, 50).op("c1", "extend", "ok", 1, 20, 21)
    history.op("c2", "acquire", "fail", 1, 10, 12)
    assert stakes(history).calls == {"acquire": {"fail": 1, "ok": 1}, "extend": {"ok": 1}, "release": {"ok": 1}}


def test_a_limit_counts_only_if_the_lock_declares_one() -> None:
    history = History().section("c1", 5, 50)
    assert stakes(history).acquire_limit_ms is None
    history.acquire_limit_ms = 700.0
    assert stakes(history).acquire_limit_ms == 700


@pytest.mark.parametrize(("hit", "how"), [({"how_down": "kill"}, "down"), ({}, "hung")])
def test_an_outage_of_a_minority_says_how_long_nobody_was_inside(hit: dict[str, object], how: str) -> None:
    history = History().section("c1", 5, 60).section("c2", 70, 80).section("c1", 300, 350, number=2)
    history.fault("f1", 39, 401, nodes=("n1",), nemesis="crash", **hit)
    # Certainly from 40 to 400: c1 is inside until 60, then for 10 ms nobody, c2 until 80, nobody until 300.
    assert stakes(history).outages == (MinorityOutage(how, 360.0, 2, 220.0),)  # type: ignore[arg-type]


def test_an_outage_of_a_majority_or_beside_another_fault_shows_nothing() -> None:
    majority = History().section("c1", 5, 60).fault("f1", 39, 401, nodes=("n1", "n2", "n3"), how_down="kill")
    assert stakes(majority).outages == ()
    beside = History().section("c1", 5, 60).fault("f1", 39, 401, nodes=("n1",), how_down="kill")
    beside.fault("f2", 100, 200, cut_links=(("c1", "n2"),))
    assert stakes(beside).outages == ()
    unseen = History().section("c1", 5, 60).fault("f1", 39, 401, nodes=("n1",), how_down="kill", holds=False)
    assert stakes(unseen).outages == ()


def test_the_moment_of_another_finding_is_around_its_first_example() -> None:
    history = History().section("c1", 500, 540, deadline=900)  # the TTL is 100 ms
    run = history.recorded()
    verdict = judge(run)
    blamed = {finding.kind for finding in verdict.findings if finding.blame == "lock"}
    assert blamed, verdict
    moment = other_moment_of(run, verdict)
    assert moment is not None
    assert moment["finding"] in blamed
    assert moment["show"] == 0
    quiet = History().section("c1", 5, 50, deadline=90).recorded()
    assert other_moment_of(quiet, judge(quiet)) is None
