"""Who is surveyed, and under what."""

from __future__ import annotations

import pytest

from fencepost.errors import UsageError
from harness.campaign.plan_order import in_order
from harness.campaign.play import playable
from harness.options import parse_run
from harness.studies.findings.table import REPLAYS
from harness.survey.findings import read_findings
from harness.survey.grid import FAULT_NAMED, FAULTS, TTL_MS, USES, survey_grid, uses_of
from harness.survey.promises import LONG_MS
from harness.survey.subjects import SUBJECTS, chosen, library_of
from nemesis.base import Topology
from nemesis.schedule import draw_schedule, parse_spec
from tests.harness.runs import ROOT
from workloads.languages.base import language_names

KEPT = ROOT / "results" / "survey" / "findings"


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_a_subject_is_a_lock_that_exists_with_a_version_and_a_language(subject: object) -> None:
    library = library_of(subject)  # type: ignore[arg-type]
    assert library.language in language_names()
    if subject.role == "library":  # type: ignore[attr-defined]
        assert library.version[:1].isdigit()
        assert subject.homepage.startswith("https://")  # type: ignore[attr-defined]


def test_names_are_used_once_and_both_kinds_of_control_are_there_for_each_number_of_servers() -> None:
    names = [subject.name for subject in SUBJECTS]
    assert len(names) == len(set(names))
    for nodes in {subject.nodes for subject in SUBJECTS}:
        assert {"correct", "broken"} <= {subject.role for subject in SUBJECTS if subject.nodes == nodes}


def test_all_subjects_meet_every_fault_before_any_meets_it_again() -> None:
    subjects = chosen((), quick=False)
    grid = survey_grid(subjects, 2, None)
    slots = in_order(grid)
    first = slots[: len(slots) // 2]
    assert {slot.seed for slot in first} == {1}
    assert {slot.cell for slot in first} == set(grid.cells)
    uses = sum(len(uses_of(subject)) for subject in subjects)
    assert len(grid.cells) == uses * len(FAULTS)
    together = [grid.at(slot.cell)["subject"] for slot in first[:3]]
    assert len(set(together)) > 1, "a library that is broken does not stop all at once"


def test_the_quick_form_is_a_part_of_the_whole_and_small() -> None:
    whole = survey_grid(chosen((), quick=False), 5, None)
    quick = survey_grid(chosen((), quick=True), 1, None, quick=True)
    assert whole.grown(quick) == whole
    assert quick.run_count <= 80
    assert {part.title for part in quick.parts} == {"Five servers"}


def test_the_quick_form_plays_what_a_published_finding_shows_and_so_repeats_that_a_library_breaks_a_promise() -> None:
    quick = survey_grid(chosen((), quick=True), 1, None, quick=True)
    played = {tuple(cell.options[name] for name in ("lock", "nemesis", "hold")) for _, cell in quick.cells.values()}
    published = {one.name for one in read_findings(KEPT) if one.about.promises}
    assert [
        replay.finding
        for replay in REPLAYS
        if replay.finding in published and (replay.lock, replay.options["nemesis"], replay.options["hold"]) in played
    ] == ["redlock-py-one-server-down"]


def test_the_options_of_every_fault_and_use_are_those_of_a_run() -> None:
    grid = survey_grid(chosen(["redlock-renewing", "set-nx-px"], quick=False), 1, "process")
    for cell in grid.cells:
        config = parse_run(grid.words(cell, 1))
        assert parse_spec(config.nemesis) is not None
        assert config.ttl_ms == TTL_MS


def test_an_outage_that_shows_something_lasts_long_enough() -> None:
    grid = survey_grid(chosen(["redlock"], quick=False), 1, "process")
    for _, cell in grid.cells.values():
        if (how := FAULT_NAMED[cell.at["fault"]].outage) is not None:
            config = parse_run(grid.words(cell.name, 1))
            for seed in range(1, 21):
                topology = Topology(config.client_names, config.node_names, config.ttl_ms)
                faults = draw_schedule(parse_spec(config.nemesis), seed, topology, config.duration_ms).faults
                longest = max(fault.duration_ms for fault in faults)
                assert longest >= LONG_MS + 100, (how, seed)


def test_a_use_is_played_only_with_a_lock_that_offers_it() -> None:
    (cannot,) = chosen(["redlock-py"], quick=False)
    assert [use.name for use in uses_of(cannot)] == ["short holds", "long holds"]
    (both,) = chosen(["redlock-renewing"], quick=False)
    assert len(uses_of(both)) == len(USES)


def test_what_cannot_be_played_is_left_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(lock: str, _: object) -> None:
        if lock == "redlock-ng":
            raise UsageError("the lock redlock-ng is not installed")

    monkeypatch.setattr("harness.run.prepare.check_lock", installed)
    grid = survey_grid(chosen(["redlock", "redlock-ng"], quick=True), 1, "process", quick=True)
    plan, cannot = playable(grid)
    assert plan is not None
    assert {plan.grid.at(cell)["subject"] for cell in plan.grid.cells} == {"redlock"}
    assert plan.configs.keys() == plan.grid.cells.keys()
    assert {grid.at(cell)["subject"]: str(why) for cell, why in cannot.items()} == {
        "redlock-ng": "the lock redlock-ng is not installed"
    }
    alone = survey_grid(chosen(["redlock-ng"], quick=True), 1, "process", quick=True)
    assert playable(alone)[0] is None
