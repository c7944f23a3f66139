"""Leases without a promised time whose entry in a queue another client takes out: the first in the list is inside."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import exclusion
from harness.checkers.explained import explain
from harness.history.taken_leases import with_taken_leases
from harness.verdict import Verdict
from tests.judge.histories import History


def does(history: History, client: str, words: str, at: float, event: str = "changed", reply: str = "1") -> History:
    """A request of the client that changes the queue."""
    history.request(client, "n1", words, at, at + 0.5, reply=reply)
    return history.seen("n1", event, at + 0.5, since=at, key="k1").called(words)


def inside(history: History, client: str, at: float, until: float, *, pops: bool = True) -> History:
    """It puts its entry into the queue, is let in, and takes the first one out as it leaves, if that is still there."""
    history.op(client, "acquire", "ok", 1, at - 2, at)
    history.op(client, "release", "ok" if pops else "fail", 1, until, until + 2)
    does(history, client, f"RPUSH k1 entry-{client}", at - 1, "set" if at < 15 else "changed")
    return does(history, client, "LPOP k1", until + 1, reply=f'"entry-{client}"') if pops else history


def queue(*, by: str = "c3", at: float = 150, words: str = "LPOP k1", **config: Any) -> History:
    """c1 was inside alone. Then c2 is from 110 to 300; c3 takes its entry out at 150; c4 is inside from 200 to 250."""
    history = History(**{"nodes": 1, "clients": 4} | config).watch("n1")
    inside(history, "c1", 10, 100)
    inside(history, "c2", 110, 300, pops=False)
    history.op("c3", "acquire", "fail", 1, 120, 190)
    does(history, by, words, at, reply='"entry-c2"')
    return inside(history, "c4", 200, 250)


def overlaps(history: History) -> dict[str, int]:
    answer = exclusion.check(with_taken_leases(history.recorded()))
    return {finding.blame: finding.count for finding in answer.findings}


def test_a_client_whose_entry_another_one_takes_out_still_holds_the_lock() -> None:
    assert {finding.blame for finding in exclusion.check(queue().recorded()).findings} == {"undecided"}
    run = with_taken_leases(queue().recorded())
    (finding,) = exclusion.check(run).findings
    assert (finding.blame, finding.breaks, finding.count) == ("lock", "exclusion", 1)
    (one,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert one.explanations[0].cause == "entry taken"
    assert one.explanations[0].sentence.startswith("c2 was inside when c3")


@pytest.mark.parametrize(
    "how",
    [{"by": "c2"}, {"at": 109.2}, {"at": 301.5}, {"words": "LTRIM k1 1 -1"}, {"workload": "semaphore", "permits": 2}],
    ids=str,
)
def test_nothing_is_known_if(how: Any) -> None:
    """It did so itself; its call had not returned; it had left; what is too old is taken out; others may be inside."""
    assert "lock" not in overlaps(queue(**how))


@pytest.mark.parametrize(
    "hit",
    [{"paused_clients": ("c2",)}, {"cut_links": (("c2", "n1"),)}, {"nodes": ("n1",), "nemesis": "crash"}],
    ids=str,
)
def test_a_fault_may_have_ended_its_session(hit: Any) -> None:
    assert "lock" not in overlaps(queue().fault("f1", 130, 140, **hit))
    assert overlaps(queue().fault("f1", 130, 140, paused_clients=("c1",))) == {"lock": 1}


def test_so_may_a_key_that_showed_that_it_was_alive() -> None:
    history = queue()
    history.request("c2", "n1", "SET alive:c2 1 PX 20", 115, 116).seen("n1", "set", 116, "1", key="alive:c2", ttl=20)
    history.seen("n1", "expired", 140, since=139, key="alive:c2")
    assert "lock" not in overlaps(history)
