"""A run of which too little could be judged is unknown: each floor from both sides, and a violation stays one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fencepost.history import HARNESS
from harness.checkers.evidence import Figures, check
from harness.checkers.judge import judge
from harness.history.heartbeats import Lags
from tests.golden import Golden
from tests.judge.histories import History, ms
from workloads.hold import Hold

ALL_LINKS = tuple((client, node) for client in ("c1", "c2") for node in ("n1", "n2", "n3"))


def load(sections: int = 10, **config: Any) -> History:
    """A load of 1,100 ms in which c1 is inside for 50 of every 100 ms."""
    history = History(hold=Hold.parse("50ms"), **config)
    for at in range(sections):
        history.section("c1", 100 * at, 100 * at + 50, number=at + 1)
    return history


def unknown(history: History) -> tuple[str, ...]:
    return check(history.recorded()).unknown


def figures(history: History) -> Figures:
    found = check(history.recorded()).figures
    assert isinstance(found, Figures)
    return found


def with_faults(seen: int, of: int, **config: Any) -> History:
    history = load(**config)
    for number in range(of):
        history.fault(f"f{number}", 10 + number, 40 + number, holds=number < seen, nodes=("n1",))
    history.planned = of
    return history


def test_a_run_in_which_no_client_acquired_is_unknown_under_any_floor() -> None:
    assert unknown(History().op("c1", "acquire", "fail", 1, 1, 2)) == ("no client acquired the lock",)
    assert unknown(History().section("c1", 1, 2)) == ()


def test_a_run_whose_faults_all_missed_is_unknown_under_any_floor(golden: Golden) -> None:
    golden("\n".join(unknown(with_faults(0, 1))))


def test_planned_faults_that_were_never_injected_prove_nothing(golden: Golden) -> None:
    history = load()
    history.planned = 2
    golden("\n".join(unknown(history)))


def test_without_planned_faults_none_is_missing() -> None:
    history = load(least_faults=100)
    assert (unknown(history), figures(history).faults_percent) == ((), None)


@pytest.mark.parametrize(("seen", "is_enough"), [(2, False), (3, True)])
def test_the_share_of_faults_that_were_seen_to_work(seen: int, is_enough: bool, golden: Golden) -> None:
    history = with_faults(seen, 4, least_faults=75)
    assert figures(history).faults_percent == 25 * seen
    if is_enough:
        assert unknown(history) == ()
    else:
        (reason,) = unknown(history)
        golden(reason)


@pytest.mark.parametrize(("healed", "is_enough"), [(986, True), (988, False)])
def test_the_share_of_the_load_in_which_a_majority_was_in_reach(healed: float, is_enough: bool, golden: Golden) -> None:
    """1,100 ms of load, of which the links are cut from its start."""
    history = load(least_reach=10).fault("f1", 0, healed + 4, cut_links=ALL_LINKS)
    history.timeline.healed_ns = None
    assert figures(history).reach_percent == pytest.approx((1_096 - healed) / 11)
    if is_enough:
        assert unknown(history) == ()
    else:
        (reason,) = unknown(history)
        golden(reason)


def test_a_slow_link_leads_to_a_majority_unless_liveness_is_required() -> None:
    for require, percent in (("lease", 100), ("liveness", 1)):
        slow = load(require=require, least_reach=5).fault("f1", 0, 1_090, slow_links=ALL_LINKS)
        assert figures(slow).reach_percent == pytest.approx(percent, abs=0.1)
        assert bool(unknown(slow)) is (require == "liveness")


@pytest.mark.parametrize(("sections", "is_enough"), [(7, False), (8, True)])
def test_the_number_of_sections(sections: int, is_enough: bool) -> None:
    history = History(hold=Hold.parse("10ms"), least_sections=8)
    for at in range(sections):
        history.section("c1", 100 * at, 100 * at + 10, number=at + 1)
    if is_enough:
        assert unknown(history) == ()
    else:
        (reason,) = unknown(history)
        assert "7 sections (at least 8 wanted)" in reason


@pytest.mark.parametrize(
    ("hold", "think", "wanted"),
    [("10ms", "0ms", 11), ("55ms", "0ms", 2), ("2s", "0ms", 0), ("10ms", "100ms", 2), ("0ms", "0ms", 20)],
)
def test_no_more_sections_are_wanted_than_a_tenth_of_those_that_fit(hold: str, think: str, wanted: int) -> None:
    """Two clients rest at the same time."""
    history = History(hold=Hold.parse(hold), think=Hold.parse(think), least_sections=20).section("c1", 0, 10)
    assert figures(history).sections_wanted == wanted


@pytest.mark.parametrize(("entered", "is_enough"), [(549, True), (551, False)])
def test_the_longest_time_without_a_client_inside(entered: float, is_enough: bool, golden: Golden) -> None:
    history = History(most_empty=50).section("c1", entered, 1_090, deadline=1_100)
    assert figures(history).empty_ms == pytest.approx(entered)
    if is_enough:
        assert unknown(history) == ()
    else:
        (reason,) = unknown(history)
        golden(reason)


def test_a_client_that_stays_inside_leaves_no_empty_time() -> None:
    assert figures(History().section("c1", 5, 1_095, deadline=1_200)).empty_ms == pytest.approx(5)


@pytest.mark.parametrize(
    ("sections", "empty_ms"),
    [
        ([(100, 900), (200, 300), (1_000, 1_100)], 100),  # one within another leaves the time after the outer one
        ([(100, 400), (300, 700), (900, 1_100)], 200),
        ([(100, 600), (600, 1_000)], 100),
        ([(500, 500)], 600),  # a moment inside ends an empty time, too
        ([(1_200, 1_300)], 1_100),  # after the load
        ([(0, 200), (300, 1_300)], 100),
    ],
)
def test_empty_time_is_what_no_section_covers(sections: list[tuple[float, float]], empty_ms: float) -> None:
    history = History(clients=3)
    for number, (start, end) in enumerate(sections):
        history.section(f"c{number + 1}", start, end, deadline=2_000)
    history.timeline.stop_ns = history.timeline.end_ns = ms(1_100)
    assert figures(history).empty_ms == pytest.approx(empty_ms)


def test_everything_that_was_lacking_is_one_line_with_what_to_do() -> None:
    history = with_faults(1, 4, least_faults=75, most_empty=1)
    (reason,) = unknown(history)
    assert reason.count("wanted") == 2
    assert reason.endswith("; make a longer run (--duration)")


def waiting(process: str, waited_s: float, over_s: float) -> Lags:
    waited_ns, over_ns = int(waited_s * 1e9), int(over_s * 1e9)
    return Lags(process, np.zeros(1), over_ns, waited_ns, stolen_ns=0, waits=np.zeros((0, 3), np.int64))


@pytest.mark.parametrize(("waited_s", "is_starved"), [(7.0, False), (7.1, True)])
@pytest.mark.parametrize(("process", "name"), [(HARNESS, "the harness"), ("c2", "c2")])
def test_a_process_that_waited_for_a_processor_too_long(
    process: str, name: str, waited_s: float, is_starved: bool, golden: Golden
) -> None:
    run = load(most_starved=35).recorded()
    lags = (waiting("c1", 0, 20), waiting(process, 0, 10), waiting(process, waited_s, 10))
    found = check(replace(run, lags=lags))
    assert isinstance(found.figures, Figures)
    assert (found.figures.starved, found.figures.starved_percent) == (name, pytest.approx(5 * waited_s))
    if is_starved:
        (reason,) = found.unknown
        golden(reason)
        assert reason.endswith("make fewer runs at once")
    else:
        assert found.unknown == ()


@pytest.mark.parametrize(("over_s", "is_starved"), [(9.9, False), (10.0, True)])
def test_the_wait_for_a_processor_is_not_judged_by_less_than_ten_seconds(over_s: float, is_starved: bool) -> None:
    run = load(most_starved=35).recorded()
    found = check(replace(run, lags=(waiting(HARNESS, over_s, over_s),)))
    assert isinstance(found.figures, Figures)
    assert (found.figures.starved is not None, bool(found.unknown)) == (is_starved, is_starved)


def test_a_violation_stays_a_violation() -> None:
    history = History(least_sections=20, hold=Hold.parse("1ms")).section("c1", 0, 50).section("c2", 10, 60)
    verdict = judge(history.recorded())
    assert verdict.verdict == "violation"
    assert verdict.unknown


def test_a_script_has_no_floors() -> None:
    run = History(least_sections=20, most_empty=1, least_faults=100).section("c1", 0, 10).recorded()
    assert check(run).unknown
    assert check(replace(run, is_scripted=True)).unknown == ()
