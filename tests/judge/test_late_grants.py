"""acquire() that succeeds after the lease has expired. TTL 100 ms; a process may wait 250 ms for a processor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from harness.checkers.late_grants import Figures, check
from harness.verdict import Answer, Finding
from tests.golden import Golden
from tests.judge.histories import History, ms

NODES = ("n1", "n2", "n3")


def granted(said: float, *, deadline: float | None = 100, **more: Any) -> History:
    """Asked at 1, answered at `said`."""
    told = {} if deadline is None else {"deadline_ns": ms(deadline), "validity_ms": 97.0}
    history = History().op("c1", "acquire", "ok", 1, 1, said, **told, **more)
    return history.op("c1", "release", "ok", 1, said + 10, said + 11)


def late(history: History) -> list[float]:
    """By how much, in ms, the late ones were late."""
    answer = check(history.recorded())
    assert all((f.kind, f.blame, f.breaks) == ("late-grant", "lock", "lease") for f in answer.findings)
    figures: Any = answer.figures
    assert sum(f.count for f in answer.findings) == figures.late
    return [figures.longest_ms] if figures.late else []


def only(history: History) -> Finding:
    (finding,) = check(history.recorded()).findings
    return finding


def test_a_run_without_sections_has_none() -> None:
    assert check(History().recorded()) == Answer(Figures(0, 0, 0))


@pytest.mark.parametrize(("said", "by"), [(90, []), (350, []), (350.5, [0.5]), (500, [150])])
def test_a_yes_that_comes_long_after_its_own_deadline_is_late(said: float, by: list[float]) -> None:
    assert late(granted(said)) == pytest.approx(by)


@pytest.mark.parametrize(("said", "by"), [(250, 0), (250.5, 0.5), (350.5, 100.5)])
def test_a_lock_within_its_client_passes_on_its_yes_at_once(said: float, by: float) -> None:
    answer = check(replace(granted(said).recorded(), lock_has_process=False))
    assert answer.figures == Figures(1, int(by > 0), pytest.approx(by))
    texts = [f"1 of 1 grant reached the client after the lease had expired, by up to {150 + by:.3g} ms"]
    assert [finding.text for finding in answer.findings] == texts[: int(by > 0)]


def test_several_tasks_of_a_client_may_keep_each_other_waiting() -> None:
    run = replace(granted(350).recorded(), lock_has_process=False)
    assert check(run).findings
    assert not check(replace(run, config=msgspec.structs.replace(run.config, tasks=2))).findings


def test_a_deadline_that_is_not_certain_counts_at_its_latest() -> None:
    """Computed at some time within the call."""
    assert late(granted(500, deadline=None, validity_ms=97.0)) == []
    stamps = {"computed_after_ns": ms(10), "computed_before_ns": ms(20)}
    assert late(granted(500, deadline=None, validity_ms=97.0, **stamps)) == [], "the answer was under way"


def test_a_lock_that_told_nothing_or_that_nothing_was_left_is_not_judged_here() -> None:
    assert late(granted(900, deadline=None)) == []
    assert late(granted(900, deadline=None, granted_ms=100.0)) == []
    assert late(granted(900, deadline=100, computed_before_ns=ms(800))) == [450]
    history = History().op("c1", "acquire", "ok", 1, 1, 900, validity_ms=-1.0, deadline_ns=ms(100))
    assert late(history) == []


def test_a_quick_answer_cannot_be_late_whatever_its_lock_told() -> None:
    """A deadline before the request is no end of this lease."""
    assert late(granted(251, deadline=0.5)) == []
    assert late(granted(251.5, deadline=0.5)) == pytest.approx([1])


def test_nor_can_one_that_took_no_longer_than_its_client_was_stopped() -> None:
    """From 50 to 99, and for up to 50 ms more."""
    for said, by in ((350, []), (350.5, [1])):
        stopped = granted(said, deadline=0.5).fault("p", 50, 99, paused_clients=("c1",))
        assert late(stopped) == pytest.approx(by)


def test_what_the_client_was_stopped_for_is_not_held_against_the_lock() -> None:
    """It ran on at 399, and 50 ms later at the latest."""
    assert late(granted(500).fault("p", 50, 399, paused_clients=("c1",))) == []
    assert late(granted(500).fault("p", 50, 99, paused_clients=("c1",))) == pytest.approx([150 - 99])
    assert late(granted(500).fault("p", 50, 399, paused_clients=("c2",))) == [150]


def test_only_the_answer_that_granted_it_counts() -> None:
    history = History().op("c1", "acquire", "fail", 1, 1, 400)
    history.op("c1", "acquire", "ok", 1, 401, 402, deadline_ns=ms(490), validity_ms=88.0)
    assert late(history) == []


def test_an_extension_that_comes_late_is_no_grant() -> None:
    history = History().op("c1", "acquire", "ok", 1, 1, 10, deadline_ns=ms(100), validity_ms=97.0)
    assert late(history.op("c1", "extend", "ok", 1, 50, 600, deadline_ns=ms(145), validity_ms=95.0)) == []


def test_the_finding_tells_who_when_and_how_late(golden: Golden) -> None:
    finding = only(granted(500).section("c2", 600, 610))
    golden(finding.text)
    assert finding.examples == (
        {
            "client": "c1",
            "life": 1,
            "section": 1,
            "key": "k1",
            "at_ms": 500,
            "shown_by": "deadline",
            "over_for_ms": 400,
        },
    )


def test_the_first_ones_and_the_latest_are_shown() -> None:
    history = History()
    for number, by in enumerate((300, 260, 270, 280, 400, 290), 1):
        at = 1000 * number
        history.op("c1", "acquire", "ok", number, at, at + 100 + by, deadline_ns=ms(at + 100), validity_ms=99.0)
        history.op("c1", "release", "ok", number, at + 600, at + 601)
    finding = only(history)
    assert (finding.count, [example["section"] for example in finding.examples]) == (6, [1, 2, 3, 5])
    assert late(history) == pytest.approx([150])
    assert len(only(granted(500)).examples) == 1


# A lock that says yes and tells no time: its keys show it.


def kept(*until: float, said: float = 600, told: dict[str, Any] | None = None) -> History:
    """c1 asked at 1 and was told yes at `said`; each node held its key from 5 on, and let it expire then."""
    history = History().watch(*NODES)
    history.op("c1", "acquire", "ok", 1, 1, said, **(told or {"granted_ms": 100.0})).sets("c1", "v1")
    history.op("c1", "release", "fail", 1, said + 10, said + 11)
    for node, at in zip(NODES, until, strict=False):
        history.seen(node, "set", 5, "v1", since=4, ttl=95).seen(node, "expired", at, since=at - 1)
    for node in NODES[len(until) :]:
        history.seen(node, "set", 5, "other", since=4)
    for node in NODES:
        history.seen(node, "blind", 2000)
    return history


def test_keys_that_had_expired_before_the_yes() -> None:
    assert late(kept(100, 105, 110)) == pytest.approx([600 - 250 - 105])
    assert only(kept(100, 105, 110)).examples[0]["shown_by"] == "keys"
    assert only(kept(100, 105, 110)).examples[0]["over_for_ms"] == pytest.approx(495)


def test_a_majority_that_was_gone_no_longer_than_a_process_may_wait() -> None:
    assert late(kept(100, 349.9, 360)) == pytest.approx([0.1])
    assert late(kept(100, 350, 360)) == []


def read_at(*set_at: float, said: float, gone: float) -> History:
    """Each node held its key from then on, its time to live was read at once, and the node dropped it so much later."""
    history = History().watch(*NODES).op("c1", "acquire", "ok", 1, 1, said, granted_ms=100.0).sets("c1", "v1")
    history.op("c1", "release", "fail", 1, said + 10, said + 11)
    for node, at in zip(NODES, set_at, strict=True):
        history.seen(node, "set", at, "v1", since=at - 1, ttl=100, read=at).seen(node, "expired", at + gone)
        history.seen(node, "blind", 2000)
    return history


def test_keys_that_their_nodes_dropped_long_after_they_had_expired() -> None:
    """Nobody holds what has expired."""
    assert late(read_at(5, 6, 7, said=600, gone=340)) == pytest.approx([600 - 250 - (6 + 101)])


def test_keys_of_which_no_majority_was_there_at_the_same_time() -> None:
    """The nodes were asked one after the other, and two keys had expired when the last one was set."""
    assert late(read_at(5, 300, 690, said=700, gone=100)) == pytest.approx([700 - 250 - (300 + 100)])
    assert late(read_at(5, 610, 690, said=700, gone=100)) == []


@pytest.mark.parametrize(("again", "by"), [(210, [600 - 250 - 210]), (349.9, [0.1]), (350, [])])
def test_what_the_nodes_hold_when_they_are_in_sight_again_counts(again: float, by: list[float]) -> None:
    """They may have held it for as long as they were out of sight."""
    history = kept(100, 105, 110)
    history.key_events = [event for event in history.key_events if event.event != "blind"]
    for node in ("n2", "n3"):
        history.seen(node, "blind", 200).seen(node, "watching", again, f"{node}-first")
    for node in NODES:
        history.seen(node, "blind", 2000)
    assert late(history) == pytest.approx(by)


@pytest.mark.parametrize(
    ("back", "run", "clock", "by"),
    [
        (1600, "n1-third", False, []),
        (1950, "n1-third", False, []),
        (1600, "n1-second", False, [1900 - 250 - 1600]),
        (1600, "n1-second", True, []),
    ],
)
def test_a_key_that_a_later_round_may_have_set_out_of_sight_may_have_been_lost_with_its_node(
    back: float, run: str, clock: bool, by: list[float]
) -> None:
    """One value for all rounds: n1's key of the first one expired, and n1 was out of sight. That it had been started
    anew before does not matter."""
    history = History(ttl_ms=1000).watch(*NODES).op("c1", "acquire", "ok", 1, 1, 1900, granted_ms=1000.0)
    history.seen("n1", "blind", 2).seen("n1", "watching", 4, "n1-second")
    if clock:
        history.fault("f", 1500, 1550, nemesis="clock", wrong_clocks=("n1",), clock_off_ms=5000.0)
    history.sets("c1", "v1").op("c1", "release", "ok", 1, 1950, 1951)
    history.seen("n1", "set", 8, "v1", since=7, ttl=1000).seen("n1", "expired", 1008, since=1007)
    history.seen("n2", "set", 2, "other", since=1, ttl=3000).seen("n1", "blind", 1490)
    history.seen("n3", "set", 1500, "v1", since=1499, ttl=1000).seen("n1", "watching", back, run)
    history.seen("n3", "deleted", 1951)
    for node in NODES:
        history.seen(node, "blind", 3000)
    assert late(history) == pytest.approx(by)


def test_a_field_that_a_later_call_prolonged_is_gone_by_its_nodes_clock() -> None:
    history = History(ttl_ms=1000).watch(*NODES).section("c1", 10, 40, deadline=1009).sets("c1", "client:1")
    for node in NODES:
        history.seen(node, "set", 9, "client:1", since=8, ttl=1000, is_hash=True)
    history.seen("n3", "deleted", 40.5).op("c1", "acquire", "ok", 2, 60, 460, granted_ms=1000.0)
    history.sets("c1", "client:1", number=2).op("c1", "release", "fail", 2, 470, 471)
    history.seen("n3", "set", 62, "other", ttl=1000)
    for node in NODES[:2]:
        history.seen(node, "prolonged", 61, "client:1", ttl=1000).seen(node, "expired", 75)
    history.fault("f", 65, 2000, nemesis="clock", wrong_clocks=("n1", "n2"), clock_off_ms=5000.0)
    for node in NODES:
        history.seen(node, "blind", 3000)
    assert late(history) == []


def test_keys_that_were_there_or_there_again_when_the_yes_came() -> None:
    assert late(kept(700, 705, 710)) == []
    history = kept(100, 105, 110)
    for node in NODES:
        history.key_events = [event for event in history.key_events if (event.node, event.event) != (node, "blind")]
        history.seen(node, "set", 200, "v1", since=199, ttl=900).seen(node, "blind", 2000)
    assert late(history) == []


def test_the_client_was_stopped_while_its_keys_expired() -> None:
    assert late(kept(100, 105, 110).fault("p", 20, 500, paused_clients=("c1",))) == []


def test_keys_that_were_never_set_or_that_somebody_deleted_did_not_expire() -> None:
    assert late(kept(100)) == []
    history = kept(100)
    for node in ("n2", "n3"):
        history.key_events = [event for event in history.key_events if event.node != node or event.event == "blind"]
        history.key_events = [event for event in history.key_events if (event.node, event.event) != (node, "blind")]
        history.watch(node).seen(node, "set", 5, "v1", since=4, ttl=95).seen(node, "deleted", 105, since=104)
        history.seen(node, "blind", 2000)
    assert late(history) == []


def test_keys_that_their_nodes_forgot_are_not_the_locks() -> None:
    history = History().watch(*NODES).op("c1", "acquire", "ok", 1, 1, 600, granted_ms=100.0).sets("c1", "v1")
    for node in NODES:
        history.seen(node, "set", 5, "v1", since=4, ttl=95).seen(node, "blind", 50).seen(node, "watching", 60, "second")
        history.seen(node, "blind", 2000)
    assert late(history) == []


def test_a_lock_whose_keys_are_not_known_is_not_judged_by_them() -> None:
    history = kept(100, 105, 110)
    history.told_values.clear()
    assert late(history) == []


def test_a_yes_that_its_deadline_shows_late_is_counted_once() -> None:
    told = {"deadline_ns": ms(100), "validity_ms": 97.0}
    assert late(kept(100, 105, 110, told=told)) == [250]
    assert only(kept(100, 105, 110, told=told)).count == 1
