"""What calls may have left that their users cancelled. TTL 1 s; what is under way has 250 ms to arrive."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import free_waits, liveness, starvation
from tests.judge.free_waits import waits
from tests.judge.histories import History, ms
from tests.judge.test_starvation import tried
from tests.judge.test_undeleted_keys import late, not_undone


def cancelled(history: History, since: float, until: float, *, client: str = "c1", f: Any = "acquire") -> History:
    return history.op(client, f, "info", 1, since, until, cancelled=True)


def watched(history: History) -> History:
    for node in history.config.node_names:
        history.watch(node)
    return history


def sets(history: History, node: str, sent: float, at: float) -> History:
    history.request("c1", node, "SET k1 a-value NX PX 1000", at, at + 1, sent=sent)
    return history.seen(node, "set", at + 1, "a-value", ttl=1000)


def gone_ms(history: History) -> list[float]:
    run = history.recorded()
    assert all(call.at_ns + (1_250 * 1_000_000) == call.gone_ns for call in run.cancelled)
    return [run.at_ms(call.gone_ns) for call in run.cancelled]


def test_only_a_call_that_was_cancelled_and_changed_something_may_have_left_it() -> None:
    def left(sent: float) -> list[float]:
        return gone_ms(sets(cancelled(watched(History(ttl_ms=1000)), 100, 120), "n2", sent, max(sent, 105)))

    assert gone_ms(cancelled(watched(History(ttl_ms=1000)), 100, 120)) == []
    assert gone_ms(sets(watched(History(ttl_ms=1000)).op("c1", "acquire", "info", 1, 100, 120), "n2", 101, 105)) == []
    assert left(101) == [1370]
    assert left(99) == []
    assert left(370) == [371 + 1250]
    assert left(371) == []


@pytest.mark.parametrize(("did", "left"), [(("INCR", "DECR"), []), (("INCR",), [1380]), (("INCR", "SET"), [1380])])
def test_a_call_that_lowered_a_count_as_often_as_it_raised_it_left_nothing(
    did: tuple[str, ...], left: list[float]
) -> None:
    history = cancelled(watched(History(ttl_ms=1000)), 100, 130)
    history.request("c1", "n2", "EVAL take 1 k1 1000", 119, 120, reply="0", did=False)
    for number, command in enumerate(did):
        history.seen("n2", "changed" if number else "set", 121, None, since=118, ttl=1000)
        history.by(history.key_events[-1], len(history.requests) - 1)
        history.called(f"{command} k1")
    assert gone_ms(history) == left


@pytest.mark.parametrize(("task", "number"), [("c1@1", 1), ("c1@2", 0), ("c1", 1)])
def test_what_another_task_of_its_process_left_is_not_the_call_s(task: str, number: int) -> None:
    history = cancelled(watched(History(ttl_ms=1000, tasks=2)), 100, 120, client="c1@1")
    history.request(task, "n2", "SET k1 a-value NX PX 1000", 105, 106).seen("n2", "set", 106, "a-value", ttl=1000)
    assert len(gone_ms(history)) == number


def test_what_a_link_held_up_may_be_there_for_a_ttl_from_when_it_was_done() -> None:
    history = cancelled(watched(History(ttl_ms=1000)), 100, 120)
    assert gone_ms(sets(history, "n2", 101, 900)) == [901 + 1250]


def test_a_release_that_was_cancelled_may_have_left_the_keys_of_its_section() -> None:
    assert gone_ms(cancelled(watched(History(ttl_ms=1000)), 100, 120, f="release")) == [1370]


def test_where_the_nodes_were_not_watched_each_call_may_have_left_something() -> None:
    assert gone_ms(cancelled(History(ttl_ms=1000), 100, 120)) == [1370]


@pytest.mark.parametrize(("until", "number"), [(800, 0), (450, 1), (3_000, 0), (3_950, 1)])
def test_a_lock_is_not_free_while_there_may_be_something_of_a_cancelled_call(until: float, number: int) -> None:
    history = tried(200, 5_000).fault("f", 150, 4_900, nodes=("n3",))
    assert len(starvation.check(history.recorded()).findings) == 1
    cancelled(history, until - 5, until)
    assert len(starvation.check(history.recorded()).findings) == number


def test_a_lock_need_not_come_free_after_the_heal_while_calls_are_cancelled() -> None:
    def found(*at: float) -> int:
        history = History(ttl_ms=100).section("c1", 10, 20).op("c1", "acquire", "fail", 2, 1_100, 1_110)
        for each in at:
            cancelled(history, each - 5, each, client="c2")
        history.timeline.stop_ns = ms(1_700)
        return len(liveness.check(history.recorded()).findings)

    assert found() == 1
    assert found(1_100) == 1, "there were 200 ms more"
    assert found(1_100, 1_300, 1_600) == 0


def test_a_client_may_wait_behind_what_a_cancelled_call_had_left() -> None:
    def found(sent: float, key: str = "k1") -> int:
        history = waits(2_500).op("c3", "acquire", "info", 1, sent - 1, sent + 1, key=key, cancelled=True)
        history.request("c3", "n1", "RPUSH queue c3", sent, sent + 0.1).seen("n1", "changed", sent + 0.1, key="queue")
        return len(free_waits.check(history.seen("n1", "blind", 80_000).recorded()).findings)

    assert found(1_000, key="k2") == 1
    assert found(1_000) == 0


def test_a_key_that_came_just_after_a_cancelled_call_may_be_that_call_s() -> None:
    assert not_undone(late()) == 3
    assert not_undone(late().op("c1", "acquire", "info", 1, 5, 9, cancelled=True)) == 2
    assert not_undone(late().op("c2", "acquire", "info", 1, 5, 9, cancelled=True)) == 3
