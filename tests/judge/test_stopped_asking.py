"""Tasks that wait for a lock and ask for it no more, while others get it. TTL 400 ms: a task asks again in 2,250 ms."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import explain
from harness.checkers.stopped_asking import Figures, check
from harness.verdict import Answer, Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

OWN, CHANNEL = 11, 7
"""The connections of c1, and the one over which it listens."""


def asleep(
    *,
    until: float = 5000,
    grants: int = 30,
    of_another: int = 0,
    every: int = 100,
    notes: bool = True,
    ask: str = "SET k1 x NX PX 400",
    answered: float | None = 1002,
    listened: float | None = 1004,
    asks: Any = (),
    **config: Any,
) -> History:
    """c1@1 asks, subscribes, and waits. c1@2, and before it c2, get the lock, `every` so many ms. `asks`: what
    else is sent, when and by whom. `notes`: c1 notes which of its tasks sends what."""
    history = History(**({"ttl_ms": 400, "nodes": 1, "clients": 3, "tasks": 2} | config)).watch("n1")
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(80_000), ms(90_000), ms(95_000)
    history.op("c1@1", "acquire", "fail", 1, 1000, until)
    history.request("c1@1" if notes else "c1", "n1", ask, 1001, answered, connection=OWN, reply="null", did=False)
    history.request("c1", "n1", "SUBSCRIBE k1:free", 1003, listened, connection=CHANNEL, did=False)
    history.request("c1", "n1", "UNSUBSCRIBE k1:free", 1050, 1051, connection=CHANNEL, did=False)
    for at, by, words in asks:
        history.request(by, "n1", words, at, at + 1, connection=OWN, reply="null", did=False)
    for turn in range(-2, grants):
        of, came = "c2@1" if 0 <= turn < of_another else "c1@2", 1100 + every * turn
        client, connection = of if notes else of[:2], OWN if of == "c1@2" else 22
        history.section(of, came + 10, came + 50, number=turn + 10, asked=came)
        history.request(client, "n1", f"SET k1 v{turn} NX PX 400", came + 5, came + 6, connection=connection)
        history.seen("n1", "set", came + 6, f"v{turn}", since=came + 4, ttl=400)
        history.request(client, "n1", "DEL k1", came + 50.3, came + 50.6, reply="1", connection=connection)
        history.seen("n1", "deleted", came + 50.6, since=came + 50.2)
    return history.seen("n1", "blind", 70_000)


def longest(history: History) -> float | None:
    answer = check(history.recorded())
    assert isinstance(answer.figures, Figures)
    assert bool(answer.findings) == (answer.figures.waits > 0)
    return answer.figures.longest_ms


def test_a_task_that_asks_no_more_while_its_process_does(golden: Golden) -> None:
    run = asleep().recorded()
    (finding,) = check(run).findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("stopped-asking", "lock", "liveness", 1)
    (example,) = finding.examples
    assert example.items() >= {"client": "c1@1", "key": "k1", "overtaken": 30, "own": 30}.items()
    assert example["for_ms"] == pytest.approx(5000 - 1002.1)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "stopped asking"
    golden(told.explanations[0].sentence)


ASKS = "SET k1 x NX PX 400"


@pytest.mark.parametrize(
    "how",
    [
        {"asks": ((2500, "c1@1", ASKS), (4000, "c1@1", ASKS))},
        {"asks": ((2500, "c1", ASKS), (4000, "c1", ASKS))},
        {"until": 3250},
        {"grants": 9},
        {"of_another": 26},
        {"of_another": 36, "grants": 60},
        {"every": 500},
        {"notes": False},
        {"ask": "BLPOP k1:wake 9"},
        {"answered": None},
        {"listened": None},
        {"listened": 1600},
    ],
    ids=str,
)
def test_not_if(how: Any) -> None:
    """It asked; it may have; it waited for a moment; few got in, or few of its own process, also among many; its
    process does not note which task sends what; it was blocked on the node; it had no answer; nor had its
    subscription, or a late one."""
    assert longest(asleep(**how)) is None


def test_that_another_task_asks_tells_nothing() -> None:
    assert longest(asleep(asks=((2500, "c1@2", ASKS), (4000, "c1@2", ASKS)))) == pytest.approx(5000 - 1002.1)


@pytest.mark.parametrize(
    "hit",
    [{"nodes": ("n1",)}, {"cut_links": (("c1", "n1"),)}, {"paused_clients": ("c1",)}, {"wrong_client_clocks": ("c1",)}],
    ids=str,
)
def test_not_if_a_fault_was_in_force_when_it_should_have_asked(hit: Any) -> None:
    assert longest(asleep().fault("f", 3300, 4700, **hit)) is None


def test_a_task_whose_connection_was_closed_may_have_to_wait() -> None:
    for connection in (OWN, CHANNEL):
        history = asleep()
        history.closed[connection] = (None, 2000)
        assert longest(history) is None


def test_one_task_is_its_process() -> None:
    assert check(asleep(tasks=1).recorded()).findings == ()


def test_semaphores_are_not_judged() -> None:
    assert check(asleep(workload="semaphore", permits=2).recorded()) == Answer()


def test_without_the_record_nothing_is_told() -> None:
    history = asleep()
    history.wire = False
    assert check(history.recorded()) == Answer()
