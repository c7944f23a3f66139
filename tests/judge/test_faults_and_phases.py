"""Which faults worked, and what the lock did in calm, under faults and after the heal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import harness.checkers
from harness.checkers import checkers, faults, phases
from tests.judge.histories import History


def planned(count: int) -> History:
    history = History()
    history.planned = count
    return history


def test_faults_that_were_seen_to_take_and_to_be_gone_are_counted() -> None:
    history = planned(3).fault("f1", 10, 20).fault("f2", 30, 40, nemesis="pause")
    answer = faults.check(history.recorded())
    each = faults.OfNemesis(injected=1, observed=1, healed=1)
    assert answer.figures == faults.Figures(3, 2, 2, 2, by_nemesis={"partition": each, "pause": each})
    assert answer.findings == answer.unknown == ()


def test_a_fault_that_missed_is_a_finding_of_the_harness() -> None:
    answer = faults.check(planned(1).fault("f1", 10, 20, holds=False).recorded())
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks) == ("fault-missed", "harness", None)


def test_faults_that_missed_are_named() -> None:
    answer = faults.check(planned(2).fault("f1", 10, 20, holds=False).fault("f2", 30, 40).recorded())
    assert "f1" in answer.findings[0].text


def test_five_faults_that_missed_are_named_and_more_are_counted() -> None:
    history, texts = planned(6), []
    for number in range(1, 7):
        history.fault(f"f{number}", 10, 20, holds=False)
        texts.append(faults.check(history.recorded()).findings[0].text.partition(": ")[2])
    assert [re.findall(r"f\d", text) for text in texts[4:]] == [["f1", "f2", "f3", "f4", "f5"]] * 2
    assert [text.endswith("and 1 more") for text in texts[4:]] == [False, True]


def test_what_was_not_seen_to_be_healed_is_reported() -> None:
    for history in (planned(1).fault("f1", 10, None), planned(1).fault("f1", 10, 20, gone=False)):
        answer = faults.check(history.recorded())
        assert [finding.kind for finding in answer.findings] == ["fault-not-healed"]
        assert answer.figures.healed == 0


def by_phase(history: History) -> Any:
    return phases.check(history.recorded()).figures


def test_time_is_split_at_the_faults_and_at_the_heal() -> None:
    found = by_phase(History().fault("f1", 100, 300).fault("f2", 200, 400))
    assert {phase: figures.seconds for phase, figures in found.by_name.items()} == {
        "calm": 0.7,
        "faults": 0.3,
        "recovery": 0.1,
    }


def test_sections_and_acquires_belong_to_the_phase_that_they_began_in() -> None:
    history = History().fault("f1", 100, 300).section("c1", 50, 60).section("c1", 150, 160, number=2)
    history.section("c1", 1050, 1060, number=3).op("c2", "acquire", "fail", 1, 200, 290, error="timeout")
    history.op("c2", "acquire", "info", 1, 500, 520, error="reset")
    found = by_phase(history)
    assert [getattr(found, phase).sections for phase in phases.PHASES] == [1, 1, 1]
    assert (found.faults.acquire_ok, found.faults.acquire_fail, found.calm.acquire_info) == (1, 1, 1)
    assert (found.faults.errors, found.calm.errors) == ({"timeout": 1}, {"reset": 1})
    assert found.recovery.sections_per_s == 10
    assert found.calm.acquire_ms_p50 == 1


def test_of_errors_that_are_as_frequent_those_that_came_first_are_shown() -> None:
    history = History()
    for at, error in enumerate("ABBCADDEEFFC"):
        history.op("c1", "acquire", "info", 1, at, at + 1, error=error)
    assert list(by_phase(history).calm.errors) == ["A", "B", "C", "D", "E"]


def test_a_moment_on_the_edge_of_a_fault_lies_in_it_and_the_moment_of_the_heal_in_the_recovery() -> None:
    history = History().fault("f1", 100, 300).fault("f2", 950, None)
    for number, at in enumerate((99, 100, 300, 301, 1000), 1):
        history.section("c1", at, at + 0.5, asked=at, number=number)
    assert [getattr(by_phase(history), phase).sections for phase in phases.PHASES] == [2, 2, 1]


def test_a_phase_that_did_not_happen_has_no_figures() -> None:
    history = History().section("c1", 50, 60)
    history.timeline.healed_ns = history.timeline.stop_ns = None
    assert set(by_phase(history).by_name) == {"calm"}


def test_the_checkers_are_those_in_the_folder() -> None:
    (folder,) = harness.checkers.__path__
    with_check = [path.stem for path in sorted(Path(folder).glob("*.py")) if "\ndef check(" in path.read_text()]
    assert list(checkers()) == with_check
    assert {"counter", "exclusion", "register"} < set(with_check)
