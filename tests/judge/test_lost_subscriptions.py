"""Clients that are not told of releases any more, because their subscription was lost. TTL 2,000 ms."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.history import ClientEnd
from harness.checkers.explained import explain
from harness.checkers.lost_subscriptions import Figures, check
from harness.verdict import Finding, Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

LOST = 1_000
CHANNEL = 777
"""The connection of the subscription."""


def sleeper(
    *,
    times: int = 4,
    lost: tuple[float | None, ...] = (None, LOST),
    listens: str = "SUBSCRIBE k1:free",
    tells: str = "EVAL free 2 k1 k1:free",
    sleeps: float = 2_000,
    held: float = 600,
    subscribes_at: float = 110,
    since: float = 100,
    every: float = 2_000,
    watched: bool = True,
) -> History:
    """c2 waits from 100 on, asks, is refused, subscribes, and asks again every 2,000 ms. Each time c1 has taken the
    key just before, and gives it back 600 ms later. The node restarts at `LOST`."""
    history = History(ttl_ms=2_000, nodes=1, clients=3)
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    history.watch("n1")
    history.request("c2", "n1", "SET k1 b NX PX 2000", 105, 106, reply="null", did=False)
    history.request("c2", "n1", listens, subscribes_at, subscribes_at + 1, did=False, connection=CHANNEL)
    history.closed[CHANNEL] = lost
    at = 0.0
    for number in range(times):
        at = 1_990 + every * number
        history.section("c1", at + 2, at + held, number=number + 1, asked=at)
        history.request("c1", "n1", "SET k1 a NX PX 2000", at, at + 1).seen("n1", "set", at + 1, "a", ttl=2_000)
        history.request("c1", "n1", tells, at + held + 1, at + held + 2).seen("n1", "deleted", at + held + 2)
        history.request("c2", "n1", "SET k1 b NX PX 2000", at + 10, at + 11, reply="null", did=False)
        for polls in range(1, int(every / sleeps)):
            looks = at + 11 + sleeps * polls
            history.request("c2", "n1", "PTTL k1", looks, looks + 0.5, reply="9", did=False)
    history.op("c2", "acquire", "fail", 1, since, at + 1_990)
    return history


def judged(history: History) -> Any:
    history.seen("n1", "blind", 80_000)
    return check(history.recorded())


def count(history: History) -> int:
    answer = judged(history)
    found = sum(each.count for each in answer.findings)
    assert answer.figures.sleeps == found
    return found


def only(history: History) -> Finding:
    (finding,) = judged(history).findings
    return finding


def test_a_client_that_never_subscribes_again_sleeps_beside_a_key_that_came_free(golden: Golden) -> None:
    history = sleeper()
    finding = only(history)
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "sleeps-unsubscribed", "lock", "liveness", 4,
    )  # fmt: skip
    golden(finding.text)
    run = history.recorded()
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "subscription lost"
    golden(told.explanations[0].sentence)
    golden(next(iter(check(run).figures.rows())).text)


def test_a_subscription_that_a_partition_cut_is_lost_too() -> None:
    history = sleeper(lost=(None, None, LOST))
    assert count(history) == 4
    run = history.recorded()
    (told,) = explain(run, Verdict("violation", "lock", check(run).findings, (), {}), 1)
    assert told.explanations[0].cause == "subscription lost"
    assert "A fault cut that connection" in told.explanations[0].sentence
    assert count(sleeper(lost=(LOST - 1, None, LOST))) == 0, "the client had closed it"
    again = sleeper(lost=(None, None, LOST))
    again.request("c2", "n1", "SUBSCRIBE k1:free", 3_000, 3_001, did=False, connection=CHANNEL + 1)
    assert count(again) == 0, "it subscribed again"


def test_a_run_without_a_lost_subscription_has_none() -> None:
    assert judged(sleeper(lost=(None, None))).figures == Figures(0, 0)


@pytest.mark.parametrize(
    "how",
    [
        {"lost": (LOST, None)},
        {"lost": (LOST, LOST + 1)},
        {"lost": (None, 70_000)},
        {"times": 2},
        {"times": 3, "every": 1_600},
        {"sleeps": 900},
        {"held": 1_760},
        {"tells": "DEL k1"},
        {"tells": "EVAL free 2 k1 k2:free"},
        {"listens": "PSUBSCRIBE k2:*"},
        {"subscribes_at": 50},
    ],
    ids=str,
)
def test_not_if(how: Any) -> None:
    """The client closed it; it was lost later; it happened twice, or within six seconds; the client polls; the key was
    free for less than a quarter of a second; no client told of the release, or of another key; it did not subscribe
    in this acquire."""
    assert count(sleeper(**how)) == 0


def test_a_pattern_names_the_channel() -> None:
    assert count(sleeper(listens="PSUBSCRIBE k1:*")) == 4


def test_a_subscription_that_outlasted_an_acquire_was_to_be_kept() -> None:
    assert count(sleeper(subscribes_at=50).op("c2", "acquire", "fail", 9, 60, 90)) == 4
    assert count(sleeper(subscribes_at=50).op("c2", "acquire", "fail", 9, 40, 90)) == 4, (
        "it was there when the wait began"
    )
    assert count(sleeper(subscribes_at=50).op("c2", "acquire", "fail", 9, 30, 45)) == 0
    assert count(sleeper(subscribes_at=50).op("c3", "acquire", "fail", 9, 60, 90)) == 0


@pytest.mark.parametrize("at", [1_500, 9_000, 60_000])
def test_a_client_that_subscribes_again_is_in_order(at: float) -> None:
    history = sleeper().request("c2", "n1", "SUBSCRIBE k1:free", at, at + 1, did=False, connection=778)
    assert count(history) == 0


def test_so_is_one_with_another_subscription() -> None:
    history = sleeper().request("c2", "n1", "SUBSCRIBE k1:more", 120, 121, did=False, connection=778)
    assert count(history) == 0


def test_a_later_life_subscribes_for_itself() -> None:
    history = sleeper().request("c2", "n1", "SUBSCRIBE k1:free", 60_000, 60_001, did=False, connection=778)
    history.ends.append(ClientEnd("c2", 1, "killed", ms(50_000)))
    assert count(history) == 4


@pytest.mark.parametrize("leaves", ["UNSUBSCRIBE", "UNSUBSCRIBE k1:free", "QUIT", "RESET"])
def test_one_that_left_the_channel_has_lost_nothing(leaves: str) -> None:
    assert count(sleeper().request("c2", "n1", leaves, 500, 501, did=False, connection=CHANNEL)) == 0


@pytest.mark.parametrize(
    "hit", [{"nodes": ("n1",)}, {"cut_links": (("c2", "n1"),)}, {"slow_links": (("c2", "n1"),)}], ids=str
)
def test_not_while_a_fault_is_in_the_way(hit: Any) -> None:
    assert count(sleeper().fault("f", 900, 1_100, **hit)) == 4
    assert count(sleeper().fault("f", 900, 6_000, **hit)) == 0


def test_the_node_must_have_answered_since_then() -> None:
    history = sleeper(lost=(None, 4_500))
    assert count(history) == 0, "it slept three times since then, for less than six seconds"
    assert count(sleeper(lost=(None, 4_500), times=6)) == 4


def test_what_a_node_tells_itself_counts_if_it_told_anything() -> None:
    listens = "PSUBSCRIBE __keyspace@0__:k1"
    assert count(sleeper(listens=listens, tells="DEL k1")) == 0
    history = sleeper(listens=listens, tells="DEL k1")
    message = '["pmessage","__keyspace@0__:k1","__keyspace@0__:k1","del"]'
    history.request("c2", "n1", "", None, 150, sent=None, reply=message, did=False, connection=CHANNEL)
    assert count(history) == 4


def test_without_the_record_nothing_is_told() -> None:
    history = sleeper()
    history.not_recorded.add("n1")
    assert judged(history).figures is None
    history = sleeper()
    history.wire = False
    assert judged(history).figures is None
