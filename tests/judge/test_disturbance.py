"""How late clients, the harness and faults were, from what they recorded themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import monotonic_ns

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.polling import becomes_true
from fencepost.history import HARNESS, Beats, FaultEvent
from harness.checkers import disturbance
from harness.checkers.disturbance import Figures, Late, LateFault
from harness.history.heartbeats import lags
from harness.run.harness_heartbeat import pulse, stolen_ns
from harness.store.append_log import read_lines
from tests.golden import Golden
from tests.judge.histories import History, ms

EVERY = 50_000


def beats(at: float, *after_ms: float, waited: float = 0, stolen: float = 0, longest: float | None = None) -> Beats:
    """Beats so long after one another, from a moment on. `longest`: of what was waited, that of one thread."""
    after_us = tuple(round(each * 1_000) for each in after_ms)
    longest_ns = None if longest is None else round(longest * 1e6)
    return Beats(ms(at), after_us, round(waited * 1e6), round(stolen * 1e6), longest_wait_ns=longest_ns)


def figures(
    lives: dict[str, list[Beats]], faults: tuple[FaultEvent, ...] = (), planned_ms: dict[str, float] | None = None
) -> Figures | None:
    own = History().recorded()
    found = lags(((name, 1, lines) for name, lines in lives.items()), faults, ms(0), ms(1_000))
    run = replace(own, lags=tuple(found), faults=faults, planned_ms=planned_ms or {})
    answer = disturbance.check(run)
    assert not answer.findings, "a busy machine breaks no promise"
    assert answer.figures is None or isinstance(answer.figures, Figures)
    return answer.figures


def pause(client: str, began: float, healed: float, *, unplanned: bool = False) -> tuple[FaultEvent, FaultEvent]:
    injected = FaultEvent(
        event="injected", fault="f1", nemesis="pause", what="", began_ns=ms(began), done_ns=ms(began), holds=True,
        seen="", unplanned=unplanned, paused_clients=(client,),
    )  # fmt: skip
    return injected, FaultEvent(
        event="healed", fault="f1", nemesis="pause", what="", began_ns=ms(healed), done_ns=ms(healed), holds=True,
        seen="", unplanned=unplanned, paused_clients=(client,),
    )  # fmt: skip


def test_a_run_without_beats_has_no_figures() -> None:
    assert figures({}) is None


def test_a_beat_that_is_due_is_not_late_and_one_that_comes_early_is_not_early() -> None:
    found = figures({"c1": [beats(0, 50, 50, 49)]})
    assert found is not None
    assert found.clients == Late(p99_ms=0, longest_ms=0, waited_percent=0)
    assert found.harness is None


def test_the_longest_delay_and_the_99th_percentile_are_over_all_clients() -> None:
    found = figures({"c1": [beats(0, *[51] * 15)], "c2": [beats(0, 50, 50, 93)]})
    assert found is not None
    assert found.clients is not None
    assert found.clients.longest_ms == 43
    assert 1 < found.clients.p99_ms < 43


def test_the_harness_is_not_among_the_clients() -> None:
    found = figures({"c1": [beats(0, 52)], HARNESS: [beats(0, 57, stolen=5.7)]})
    assert found is not None
    assert found.clients is not None
    assert found.harness is not None
    assert (found.clients.longest_ms, found.harness.longest_ms) == (2, 7)
    assert found.stolen_percent == pytest.approx(10)


def test_beats_before_the_load_and_after_its_end_do_not_count() -> None:
    found = figures({"c1": [beats(-200, 150), beats(100, 50), beats(900, 150)]})
    assert found is not None
    assert found.clients is not None
    assert found.clients.longest_ms == 0


def test_a_beat_that_is_due_at_the_beginning_or_comes_at_the_very_end_counts() -> None:
    for line in (beats(-50, 52), beats(948, 52)):
        found = figures({"c1": [line]})
        assert found is not None
        assert found.clients is not None
        assert found.clients.longest_ms == 2


def test_what_was_waited_counts_where_all_of_the_line_is_within_the_load() -> None:
    for line, percent in (
        (beats(-1, 50, waited=50), 0),
        (beats(951, 50, waited=50), 0),
        (beats(950, 50, waited=5), 10),
    ):
        found = figures({"c1": [beats(100, 50), line]})
        assert found is not None
        assert found.clients is not None
        assert found.clients.waited_percent == pytest.approx(percent / 2)


def test_the_harness_that_lost_most_to_the_hypervisor_counts() -> None:
    lives = [(HARNESS, life, [beats(0, 50, stolen=stolen)]) for life, stolen in ((1, 1), (2, 5), (3, 2))]
    run = replace(History().recorded(), lags=tuple(lags(lives, (), ms(0), ms(1_000))))
    found = disturbance.check(run).figures
    assert isinstance(found, Figures)
    assert found.stolen_percent == 10


def test_waiting_is_a_share_of_the_time_of_the_client_that_waited_longest() -> None:
    found = figures({"c1": [beats(0, 50, 50, waited=5)], "c2": [beats(0, 50, 50, waited=20), beats(100, 50, 50)]})
    assert found is not None
    assert found.clients is not None
    assert found.clients.waited_percent == 10


def test_what_several_threads_waited_is_not_added_up() -> None:
    found = figures({"c1": [beats(0, 50, 50, waited=108, longest=40)]})
    assert found is not None
    assert found.clients is not None
    assert found.clients.waited_percent == 40


durations_ms = st.floats(0, 2_000)
lines = st.builds(
    lambda at, after, waited, stolen, longest: beats(at, *after, waited=waited, stolen=stolen, longest=longest),
    st.floats(-500, 1_500),
    st.lists(durations_ms, min_size=1, max_size=20),
    durations_ms,
    durations_ms,
    st.none() | durations_ms,
)


@given(st.dictionaries(st.sampled_from(["c1", "c2", HARNESS]), st.lists(lines, max_size=4)))
def test_no_share_is_more_than_all_and_no_percentile_more_than_a_higher_one(lives: dict[str, list[Beats]]) -> None:
    found = figures(lives)
    if found is None:
        return
    assert 0 <= found.stolen_percent <= 100
    for late in (found.clients, found.harness):
        if late is not None:
            assert 0 <= late.waited_percent <= 100
            assert 0 <= late.p99_ms <= late.longest_ms


def test_a_client_that_a_fault_had_stopped_was_not_late() -> None:
    found = figures({"c1": [beats(0, *[50] * 4, 450, 51, 50, 50)]}, pause("c1", 220, 600))
    assert found is not None
    assert found.clients is not None
    assert found.clients.longest_ms == 0, "the beats that touch the pause do not count"


@pytest.mark.parametrize(("at", "late_ms"), [(119.999, 69.999), (120, 0)])
def test_a_beat_just_before_a_stop_may_have_been_held_up_by_it(at: float, late_ms: float) -> None:
    """The stop may have begun 100 ms before it was recorded."""
    found = figures({"c1": [beats(0, at)]}, pause("c1", 220, 600))
    assert found is not None
    assert (found.clients.longest_ms if found.clients else 0) == pytest.approx(late_ms)


@pytest.mark.parametrize(("client", "unplanned"), [("c2", False), ("c1", True)])
def test_the_stop_of_another_client_or_by_somebody_else_excuses_nothing(client: str, unplanned: bool) -> None:
    found = figures({"c1": [beats(0, *[50] * 4, 450, 50)]}, pause(client, 220, 600, unplanned=unplanned))
    assert found is not None
    assert found.clients is not None
    assert found.clients.longest_ms == 400


def test_the_fault_whose_injection_began_latest_is_named() -> None:
    faults = (*pause("c1", 220, 600), replace_fault(pause("c1", 730, 800)[0], "f2"))
    found = figures({"c1": [beats(0, 50)]}, faults, {"f1": 200, "f2": 700})
    assert found is not None
    assert found.latest == LateFault("f2", 30)


def replace_fault(event: FaultEvent, name: str) -> FaultEvent:
    return FaultEvent(
        event=event.event, fault=name, nemesis="pause", what="", began_ns=event.began_ns, done_ns=event.done_ns,
        holds=True, seen="",
    )  # fmt: skip


def test_a_fault_that_was_in_no_schedule_was_not_late() -> None:
    found = figures({"c1": [beats(0, 50)]}, pause("c1", 220, 600), {})
    assert found is not None
    assert found.latest is None


def test_the_row_says_it_in_one_line(golden: Golden) -> None:
    found = figures({"c1": [beats(0, 52, waited=1.04)], HARNESS: [beats(0, 57)]}, pause("c2", 203, 300), {"f1": 200})
    assert found is not None
    (row,) = found.rows()
    golden(row.text)


def test_the_harness_records_its_own_beats(tmp_path: Path) -> None:
    began_ns = monotonic_ns()

    def lines() -> list[Beats]:
        log = tmp_path / "beats"
        return [line for piece in read_lines(log, Beats) for line in piece] if log.exists() else []

    with pulse(tmp_path / "beats"):
        assert becomes_true(lambda: bool(lines()), within_s=30)
    assert lines()[0].from_ns >= began_ns
    assert all(after_us >= EVERY for line in lines() for after_us in line.after_us)


def test_what_a_hypervisor_took_only_grows() -> None:
    stolen = stolen_ns()
    assert stolen_ns() >= stolen >= 0
