"""Which classes of fault met which steps of the lock, and which were not tried."""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec
import pytest

from harness.checkers.coverage import STEPS, Figures, check
from nemesis.base import FaultClass
from tests.judge.histories import History


def of_class(history: History, fault_class: str, began: float, healed: float | None, **hit: Any) -> History:
    """A fault of this class that is certainly in force from `began` to `healed`; `hit`: as `History.fault` takes it."""
    number = len(history.faults)
    history.fault(f"f{number}", began - 1, None if healed is None else healed + 1, **hit)
    history.faults[number:] = [
        msgspec.structs.replace(event, fault_class=fault_class) for event in history.faults[number:]
    ]
    return history


def met(history: History) -> dict[str, dict[str, int]]:
    figures = check(history.recorded()).figures
    assert isinstance(figures, Figures)
    return figures.met


def one_section() -> History:
    """c1 acquires from 99 to 100, extends from 120 to 125, releases from 150 to 151, and asks again at 200."""
    history = History(ttl_ms=100).section("c1", 100, 150)
    return history.op("c1", "extend", "ok", 1, 120, 125).op("c1", "acquire", "fail", 2, 200, 205)


@pytest.mark.parametrize(
    ("began", "healed", "steps"),
    [
        (10, 98.9, ""),
        (10, 99, "acquire"),
        (10, 99.5, "acquire"),
        (98, 100, "acquire inside"),
        (101, 119.9, "inside"),
        (101, 120, "inside extend"),
        (125, 130, "inside extend"),
        (125.1, 130, "inside"),
        (140, 150, "inside release"),
        (151, 160, "release rest"),
        (151.1, 199.9, "rest"),
        (199.5, 260, "rest acquire"),
        (205, 260, "acquire"),
        (205.1, 260, ""),
    ],
)
def test_a_fault_meets_the_steps_that_were_under_way_while_it_was_certainly_in_force(
    began: float, healed: float, steps: str
) -> None:
    counts = met(of_class(one_section(), "jitter", began, healed, slow_links=(("c1", "n1"),)))
    (found,) = counts.values()
    assert {step for step, number in found.items() if number} == set(steps.split())


@pytest.mark.parametrize(("asked_again", "rests"), [(151.999, 0), (152, 1)])
def test_a_client_rests_if_it_does_nothing_for_a_millisecond(asked_again: float, rests: int) -> None:
    history = History(ttl_ms=100).section("c1", 100, 150).op("c1", "acquire", "fail", 2, asked_again, 205)
    assert met(of_class(history, "jitter", 90, 160, slow_links=(("c1", "n1"),)))["jitter"]["rest"] == rests


def test_a_fault_of_a_node_meets_every_client_and_one_of_a_link_its_own() -> None:
    history = one_section().section("c2", 400, 440)
    assert met(of_class(history, "node hung", 90, 460, nodes=("n1",)))["node hung, long"]["inside"] == 2
    other = of_class(one_section().section("c2", 400, 440), "link silent", 90, 460, cut_links=(("c2", "n1"),))
    assert met(other)["link silent, long"] == {"acquire": 1, "extend": 0, "inside": 1, "release": 1, "rest": 0}


def test_the_tasks_of_a_client_are_met_with_it() -> None:
    history = History(ttl_ms=100).section("c1@1", 100, 150).section("c1@2", 160, 170)
    history = of_class(history, "client stopped", 90, 180, paused_clients=("c1",))
    assert met(history)["client stopped"]["inside"] == 2


@pytest.mark.parametrize(
    ("at", "under_way", "step"),
    [
        (160, "releasing", "release"),
        (160.5, "resting", "rest"),
        (161, "acquiring", "acquire"),
        (161.1, "acquiring", ""),
    ],
)
def test_a_kill_meets_the_step_that_it_ends(at: float, under_way: str, step: str) -> None:
    history = History(ttl_ms=100).section("c1", 100, 150).end("c1", "killed", at, under_way=under_way)
    (counts,) = met(of_class(history, "client killed", 161, 200, killed_clients=("c1",))).values()
    assert {name for name, number in counts.items() if number} == ({step} if step else set())


@pytest.mark.parametrize(("healed", "name"), [(109.9, ", brief"), (110, ""), (399.9, ""), (400, ", long"), (None, "")])
def test_brief_and_long_faults_are_counted_apart(healed: float | None, name: str) -> None:
    history = of_class(one_section(), "requests lost", 100, healed, cut_links=(("c1", "n1"),))
    assert list(met(history)) == [f"requests lost{name}"]


def test_what_was_not_tried_is_told_and_a_fault_that_did_not_take_tried_nothing() -> None:
    history = of_class(one_section(), "jitter", 100, 150, slow_links=(("c1", "n1"),))
    history = of_class(history, "node hung", 100, 150, holds=False, nodes=("n1",))
    figures = check(history.recorded()).figures
    assert isinstance(figures, Figures)
    assert set(figures.not_tried) == set(get_args(FaultClass)) - {"jitter"}
    (row,) = figures.rows()
    assert [int(n) for n in re.findall(r"\d+", row.text)] == [1, len(get_args(FaultClass)), 1, 1, 1, 1, 0]
    (part,) = figures.parts()
    assert "Not tried: connections refused, link silent," in part.note
    assert part.tables[0].rows == (("jitter", ("1", "1", "1", "1", "0")),)


def test_a_run_without_faults_has_nothing_to_cover() -> None:
    assert check(one_section().recorded()).figures is None


def test_a_fault_of_an_older_record_or_of_another_nemesis_is_called_by_its_nemesis() -> None:
    history = one_section().fault("f0", 100, 150, nemesis="hiccup", paused_clients=("c1",))
    assert list(met(history)) == ["hiccup"]
    assert set(met(history)["hiccup"]) == set(STEPS)
