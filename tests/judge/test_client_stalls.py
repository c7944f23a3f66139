"""Clients that did not run although no fault had stopped them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fencepost.history import STARVATION, Gap
from harness.checkers.acquire_timeouts import check
from harness.history.heartbeats import outside_stops
from tests.judge.histories import History, ms


def gap(
    began: float, ended: float, waited: float = 0, pid: int | None = None, *, is_stop: bool = False
) -> tuple[str, Gap]:
    return "c1", Gap(ms(began), ms(ended), round(waited * 1e6), pid, is_stop)


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


def test_what_threads_waited_one_after_the_other_is_a_pause_that_is_called_starvation() -> None:
    """They may have waited at the same time: then the client was stopped as well."""
    client, whole = gap(100, 500, waited=400)
    one = client, replace(whole, longest_wait_ns=250_000_000)
    assert stops(one) == [(100, 500)]
    assert outside_stops([one], ())[0][0].fault_class == STARVATION
    assert stops((client, replace(whole, longest_wait_ns=300_000_000))) == []


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


@pytest.mark.parametrize(
    ("one", "what", "seen", "fault_class"),
    [
        (gap(100, 300, pid=7, is_stop=True), "the lock of c1 was stopped", "the kernel showed it as stopped", ""),
        (
            gap(100, 300, pid=7),
            "the lock of c1 stood still",
            "the kernel showed it as frozen, or waiting for a disk",
            "",
        ),
        (gap(100, 300), "c1 stood still", "its heartbeat stood still, for longer than CPU starvation explains", ""),
        (
            gap(100, 400, 124),
            "c1 stood still",
            "its heartbeat stood still, for longer than CPU starvation explains",
            "",
        ),
        (gap(100, 400, 125), "c1 was not scheduled", "its heartbeat was starved of CPU", STARVATION),
    ],
)
def test_a_pause_is_called_a_stop_only_on_the_kernels_word(
    one: tuple[str, Gap], what: str, seen: str, fault_class: str
) -> None:
    pause, over = outside_stops([one], ())[0]
    assert (pause.what, pause.seen, pause.fault_class) == (what, seen, fault_class)
    assert pause.paused_clients == over.paused_clients == ("c1",), "no lock is blamed for what it is called"


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
