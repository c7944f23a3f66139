"""Leases without a promised time whose entry in a queue another client takes out: the first in the list is inside."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import exclusion
from harness.checkers.explained import explain
from harness.history.open_ended_leases import with_open_ended_leases
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms


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
    history = History(**{"nodes": 1, "clients": 4, "ttl_ms": 50} | config).watch("n1")
    inside(history, "c1", 10, 100)
    inside(history, "c2", 110, 300, pops=False)
    history.op("c3", "acquire", "fail", 1, 120, 190)
    does(history, by, words, at, reply='"entry-c2"')
    return inside(history, "c4", 200, 250)


def overlaps(history: History) -> dict[str, int]:
    answer = exclusion.check(with_open_ended_leases(history.recorded()))
    return {finding.blame: finding.count for finding in answer.findings}


def test_a_client_whose_entry_another_one_takes_out_still_holds_the_lock() -> None:
    assert {finding.blame for finding in exclusion.check(queue().recorded()).findings} == {"undecided"}
    run = with_open_ended_leases(queue().recorded())
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


def test_a_key_that_expired_before_says_nothing() -> None:
    history = queue()
    history.request("c2", "n1", "SET alive:c2 1 PX 20", 30, 31).seen("n1", "set", 31, "1", key="alive:c2", ttl=20)
    history.seen("n1", "expired", 60, since=59, key="alive:c2")
    history.key_events.sort(key=lambda event: event.at_ns)
    assert overlaps(history) == {"lock": 1}


def calm(*, until: float = 500, wire: bool = False, **config: Any) -> History:
    """c1 is inside from 2,000 on; c2 comes at 2,300."""
    history = History(**{"nodes": 1, "clients": 3, "ttl_ms": 700} | config)
    history.wire = wire
    history.op("c1", "acquire", "ok", 1, 1_990, 2_000).op("c1", "release", "fail", 1, 2_000 + until, 2_510)
    return history.op("c2", "acquire", "ok", 1, 2_290, 2_300).op("c2", "release", "ok", 1, 2_400, 2_410)


def told(history: History) -> tuple[str, str]:
    """The cause, and the sentence."""
    run = with_open_ended_leases(history.recorded())
    (finding,) = exclusion.check(run).findings
    assert (finding.blame, finding.breaks, finding.count) == ("lock", "exclusion", 1)
    (one,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    return str(one.explanations[0].cause), one.explanations[0].sentence


def test_no_session_ends_by_itself_before_its_time_out(golden: Golden) -> None:
    cause, sentence = told(calm())
    assert cause == "unknown"
    golden(sentence)


@pytest.mark.parametrize(("left", "cause"), [(2_200, "given back early"), (2_350, "unknown")])
def test_a_nested_release_may_have_freed_the_lock(left: float, cause: str, golden: Golden) -> None:
    history = calm().op("c1", "reenter", "ok", 1, 2_100, 2_110).op("c1", "leave", "ok", 1, left - 10, left)
    history.op("c2", "reenter", "ok", 1, 2_310, 2_320).op("c2", "leave", "ok", 1, 2_330, 2_340)
    found, sentence = told(history)
    assert found == cause
    golden(sentence)


@pytest.mark.parametrize(
    ("config", "blame"),
    [({"ttl_ms": 299}, "undecided"), ({"ttl_ms": 301}, "lock"), ({"ttl_ms": 301, "until": 299}, None)],
    ids=str,
)
def test_a_lease_lasts_for_a_ttl_or_until_its_release(config: Any, blame: str | None) -> None:
    assert overlaps(calm(**config)) == ({} if blame is None else {blame: 1})


@pytest.mark.parametrize(
    ("began", "healed", "blame"),
    [(500, 990, "lock"), (500, 1_010, "undecided"), (2_100, 2_150, "undecided"), (2_310, 2_400, "lock")],
)
@pytest.mark.parametrize(
    "hit",
    [{"nodes": ("n1",)}, {"cut_links": (("c1", "n1"),)}, {"paused_clients": ("c1",)}, {"cut_members": (("n1", "n2"),)}],
    ids=str,
)
def test_a_fault_may_end_a_session(hit: Any, began: float, healed: float, blame: str) -> None:
    """From a second before the grant on, until the other client comes."""
    assert overlaps(calm().fault("f1", began, healed, **hit)) == {blame: 1}
    assert overlaps(calm().fault("f1", began, healed, paused_clients=("c2",))) == {"lock": 1}


@pytest.mark.parametrize(
    ("client", "since", "blame"), [("c1", 2_100, "undecided"), ("c1", 900, "lock"), ("c2", 2_100, "lock")]
)
def test_a_client_that_is_starved_of_cpu_may_lose_its_session(client: str, since: float, blame: str) -> None:
    history = calm()
    history.kept_waiting = {client: [(ms(since), ms(since + 60))]}
    assert overlaps(history) == {blame: 1}


def test_the_lock_may_say_that_it_is_lost() -> None:
    assert overlaps(calm().op("c1", "held", "fail", 1, 2_250, 2_310)) == {"undecided": 1}
    assert overlaps(calm().op("c1", "held", "fail", 1, 2_310, 2_320)) == {"lock": 1}
    assert overlaps(calm().op("c3", "held", "fail", 1, 2_250, 2_310)) == {"lock": 1}


@pytest.mark.parametrize(
    ("client", "closed", "blame"),
    [
        ("c1", (2_200,), "undecided"),
        ("c1", (None, 2_200), "undecided"),
        ("c1", (2_400,), "lock"),
        ("c1", (900,), "lock"),
        ("c2", (2_200,), "lock"),
    ],
)
def test_a_session_may_end_with_a_connection(client: str, closed: Any, blame: str) -> None:
    history = calm(wire=True)
    history.request(client, "n1", "PING", 800, 801, connection=901, did=False)
    history.closed[901] = closed
    assert overlaps(history) == {blame: 1}


def test_a_key_that_expired_may_have_shown_that_it_was_alive() -> None:
    def with_key(expired: float) -> History:
        history = calm(wire=True).watch("n1")
        history.request("c1", "n1", "SET alive:c1 1 PX 900", 1_900, 1_901).seen("n1", "set", 1_901, "1", key="alive:c1")
        return history.seen("n1", "expired", expired, since=expired - 1, key="alive:c1").seen("n1", "blind", 9_000)

    assert overlaps(with_key(2_250)) == {"undecided": 1}
    assert overlaps(with_key(2_450)) == {"lock": 1}
