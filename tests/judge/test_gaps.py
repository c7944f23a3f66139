"""Clients that did not run although no fault had stopped them."""

from __future__ import annotations

from fencepost.history import Gap
from harness.checkers.acquire_timeouts import check
from harness.history.gaps import outside_stops
from tests.judge.histories import History, ms


def gap(began: float, ended: float, waited: float = 0, pid: int | None = None) -> tuple[str, Gap]:
    return "c1", Gap(ms(began), ms(ended), round(waited * 1e6), pid)


def stops(*gaps: tuple[str, Gap], faults: History | None = None) -> list[tuple[float, float]]:
    events, _ = outside_stops(gaps, faults.faults if faults else ())
    assert [event.event for event in events] == ["injected", "healed"] * (len(events) // 2)
    assert all(event.unplanned and event.paused_clients == ("c1",) for event in events)
    times = [(event.done_ns - ms(0)) / 1e6 for event in events]
    return list(zip(times[::2], times[1::2], strict=True))


def waits(*gaps: tuple[str, Gap], faults: History | None = None) -> list[tuple[float, float]]:
    _, found = outside_stops(gaps, faults.faults if faults else ())
    return [((began - ms(0)) / 1e6, (ended - ms(0)) / 1e6) for began, ended in found.get("c1", ())]


def test_a_gap_that_no_fault_explains_is_an_unplanned_pause() -> None:
    assert stops(gap(100, 300)) == [(100, 300)]
    assert waits(gap(100, 300)) == []


def test_the_time_that_a_client_waited_for_a_processor_is_no_pause() -> None:
    assert stops(gap(100, 500, waited=350)) == []
    assert waits(gap(100, 500, waited=350)) == [(100, 500)]
    assert stops(gap(100, 500, waited=250)) == [(100, 500)]
    assert stops(gap(100, 500, waited=300)) == [], "a heartbeat may be late by so much"


def test_each_pause_has_a_name_of_its_own() -> None:
    events, _ = outside_stops([gap(100, 300), gap(600, 900)], ())
    assert [event.fault for event in events] == ["gap-1", "gap-1", "gap-2", "gap-2"]


def test_a_gap_that_a_planned_pause_explains_is_that_pause() -> None:
    planned = History().fault("f1", 150, 400, paused_clients=("c1",))
    assert stops(gap(100, 480), faults=planned) == []
    assert stops(gap(100, 900), faults=planned) == [(100, 900)]
    others = History().fault("f1", 150, 400, paused_clients=("c2",))
    assert stops(gap(100, 480), faults=others) == [(100, 480)]


def test_a_pause_that_was_undone_explains_nothing_after_that() -> None:
    planned = History().fault("f1", 100, 900, paused_clients=("c1",)).undone("f1", 150, paused_clients=("c1",))
    assert stops(gap(500, 800), faults=planned) == [(500, 800)]


def test_a_stop_that_client_and_lock_both_show_is_one() -> None:
    assert stops(gap(100, 300), gap(95, 310, pid=7)) == [(95, 310)]


def test_a_stop_of_the_locks_process_alone_says_so() -> None:
    events, _ = outside_stops([gap(100, 300, pid=7)], ())
    assert {event.what for event in events} == {"the lock of c1 was stopped"}
    assert events[0].seen == "the kernel showed it as stopped"
    assert outside_stops([gap(100, 300)], ())[0][0].seen == "its heartbeat stood still"


def test_what_kept_a_client_waiting_is_in_order_and_disjoint() -> None:
    assert waits(gap(300, 420, waited=100), gap(100, 210, waited=90), gap(200, 310, waited=90)) == [(100, 420)]


def test_a_call_that_was_long_because_its_client_got_no_processor_is_not_too_long() -> None:
    history = History(ttl_ms=100)
    history.acquire_limit_ms = 100
    history.op("c1", "acquire", "ok", 1, 10, 710, validity_ms=90)
    assert [finding.kind for finding in check(history.recorded()).findings] == ["acquire-overrun"]
    history.kept_waiting = {"c1": [(ms(200), ms(600))]}
    assert check(history.recorded()).findings == ()
    history.kept_waiting = {"c2": [(ms(200), ms(600))]}
    assert len(check(history.recorded()).findings) == 1
