"""The comparison of systems: its runs, its rules, and a small form of it that is played."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from fencepost.errors import UsageError
from harness.campaign.document import DataTable, Heading, TableField
from harness.campaign.folder import RunLine
from harness.campaign.own_study import read_study
from harness.campaign.to_markdown import markdown
from harness.options import parse_run
from harness.studies.systems.grid import systems_grid
from harness.studies.systems.page import document_of, headline
from harness.studies.systems.settle import NEEDS, SystemRow, choose, settle
from harness.studies.systems.study import QUICK, STUDY
from harness.studies.systems.table import CROWDS, FAULTS, LED, NO_FAULT, PAUSED, SYSTEMS, WITH, WITHOUT, Crowd
from nemesis.base import Topology
from nemesis.schedule import draw_schedule, parse_spec
from tests.campaign import made
from tests.harness import runs
from workloads.registry import find_lock

TWO = [system for system in SYSTEMS if system.name in ("redlock", "postgres-transaction")]
GRID = systems_grid("two", seeds=2, duration="1s", crowd_duration="1s", systems=TWO)


def rows_of(lines: Sequence[RunLine], **cannot: UsageError) -> list[SystemRow]:
    played = made.played(None, lines, of_campaign=made.campaign(GRID))
    object.__setattr__(played, "cannot", cannot)
    return settle(played)


def cell(*at: str) -> str:
    return " · ".join(at)


def lines_of(system: str, **changed: Mapping[str, object]) -> list[RunLine]:
    """Two runs of each cell of a system; `changed`: of the cells whose name has this word."""
    found = []
    for name, (_, one) in GRID.cells.items():
        if one.at["system"] == system:
            more = next((dict(fields) for word, fields in changed.items() if word.replace("_", " ") in name), {})
            found += [made.line(name, seed, moments=40, moments_served=40, **more) for seed in (1, 2)]
    return found


def test_every_system_is_a_lock_and_every_fault_one_that_can_be_drawn() -> None:
    for system in SYSTEMS:
        assert find_lock(system.options["lock"])
        for fault in FAULTS:
            assert parse_spec(fault.of(system)) is not None
    for grid in (STUDY.grid, QUICK.grid):
        assert {place.at["system"] for _, place in grid.cells.values()} == {system.name for system in SYSTEMS}
        for name in grid.cells:
            assert parse_run(grid.words(name, 1)).ttl_ms == 2_000


def test_all_systems_meet_the_same_faults_and_crowds_and_those_with_tokens_a_fault_once_more() -> None:
    per_system = {system.name: [c for c in GRID.cells.values() if c[1].at["system"] == system.name] for system in TWO}
    assert len(per_system["redlock"]) == len(FAULTS) + 1 + len(CROWDS)
    assert len(per_system["postgres-transaction"]) == len(FAULTS) + len(CROWDS)
    assert {part.kind for part in GRID.parts} == {"safety", "cost"}


def test_a_group_loses_its_leader_where_others_lose_a_server() -> None:
    (led,) = (fault for fault in FAULTS if fault.name == LED)
    kinds = {system.name: led.of(system).partition(":")[0] for system in SYSTEMS}
    assert {name for name, nemesis in kinds.items() if nemesis == "leader"} == {"etcd", "zookeeper", "hazelcast"}


def test_a_primary_is_killed_once_in_a_run_for_after_that_another_one_is_it() -> None:
    grid = STUDY.grid
    for seed in range(1, 1 + grid.parts[0].seeds):
        config = parse_run(grid.words(cell("sentinel", LED, WITHOUT), seed))
        topology = Topology(config.client_names, config.node_names, config.ttl_ms)
        (kill,) = draw_schedule(parse_spec(config.nemesis), seed, topology, config.duration_ms).faults
        assert kill.fault["nodes"] == ["n1"]


def test_data_that_is_lost_under_a_pause_is_told_from_what_is_lost_otherwise_and_with_tokens() -> None:
    lost = {"lost": 1, "overlaps": {"lock": 0, "client": 2, "undecided": 0}}
    row, _ = rows_of([*lines_of("redlock", client_paused_·_without=lost), *lines_of("postgres-transaction")])
    assert [row.lost[tokens].rate.events for tokens in (WITHOUT, WITH)] == [2, 0]
    assert [row.lost[tokens].rate.runs for tokens in (WITHOUT, WITH)] == [2, 2]
    assert row.lost[WITHOUT].cells == (cell("redlock", PAUSED, WITHOUT),)
    assert (row.exclusive.rate.events, row.broken.rate.events, row.lost_otherwise.rate.events) == (2, 0, 0)
    assert row.exclusive.rate.runs == 2 * (len(FAULTS) + 1)


def test_each_number_is_the_median_of_the_runs_and_names_its_cells() -> None:
    name = cell("redlock", Crowd(16, 1).name)
    lines = [made.line(name, seed, grants=grants) for seed, grants in ((1, 100), (2, 300))]
    row, other = rows_of(lines)
    found = row.per_second[Crowd(16, 1).name]
    assert (found.low, found.middle, found.high, found.runs, found.cells) == (10, 20, 30, 2, (name,))
    assert other.per_second[Crowd(16, 1).name].middle is None


def test_a_lock_that_let_two_in_is_not_recommended_however_fast() -> None:
    fast, broken = {"grants": 900}, {"overlaps": {"lock": 1, "client": 0, "undecided": 0}}
    (need,) = (need for need in NEEDS if need.name == "contended")
    both = [*lines_of("redlock", clients=fast), *lines_of("postgres-transaction")]
    assert choose(need, rows_of(both)).best.system.name == "redlock"  # type: ignore[union-attr]
    both = [*lines_of("redlock", clients=fast, partition=broken), *lines_of("postgres-transaction")]
    assert choose(need, rows_of(both)).best.system.name == "postgres-transaction"  # type: ignore[union-attr]


def test_a_system_that_lost_data_is_not_recommended_to_those_who_need_it_kept() -> None:
    need, lines = NEEDS[0], lines_of("postgres-transaction")
    assert choose(need, rows_of(lines)).best is not None
    for fault in (PAUSED, LED):
        choice = choose(need, rows_of(lines_of("postgres-transaction", **{fault: {"lost": 1}})))
        assert choice.best is None
        assert choice.none_fits


def test_systems_whose_intervals_overlap_are_not_told_apart() -> None:
    (need,) = (need for need in NEEDS if need.name == "data")
    choice = choose(need, rows_of([*lines_of("redlock"), *lines_of("postgres-transaction")]))
    assert choice.best is not None
    assert len(choice.alike) == 1
    assert choose(need, rows_of([])).best is None


def test_one_run_of_each_names_the_best_and_tells_none_apart() -> None:
    (need,) = (need for need in NEEDS if need.name == "contended")
    both = [*lines_of("redlock", clients={"grants": 900}), *lines_of("postgres-transaction")]
    for seeds, alike in (((1, 2), 0), ((1,), 1)):
        choice = choose(need, rows_of([line for line in both if line.seed in seeds]))
        assert choice.best is not None
        assert (choice.best.system.name, len(choice.alike)) == ("redlock", alike)


def test_the_page_has_a_headline_a_recommendation_a_need_and_what_was_left_out() -> None:
    lost = {"lost": 1}
    lines = lines_of("redlock", client_paused_·_without=lost)
    left = {name: UsageError("no PostgreSQL here") for name in GRID.cells if name.startswith("postgres")}
    rows = rows_of(lines, **left)
    assert "1 system, 12 runs under faults" in headline(rows)
    assert "data was lost on redlock" in headline(rows)
    played = made.played(None, lines, of_campaign=made.campaign(GRID))
    document = document_of(played, rows)
    text = markdown(document)
    assert "no PostgreSQL here" in text
    assert all(need.asks in text for need in NEEDS)
    assert document.numbers["systems"][1]["cannot"] == "no PostgreSQL here"  # type: ignore[index]
    assert cell("redlock", NO_FAULT, WITHOUT) in text


def test_each_figure_leads_to_its_cells_and_names_them() -> None:
    played = made.played(None, lines_of("redlock"), of_campaign=made.campaign(GRID))
    blocks = document_of(played, settle(played)).blocks
    anchors = {block.anchor for block in blocks if isinstance(block, Heading)}
    tables = [block for block in blocks if isinstance(block, DataTable) and block.style == "figures"]
    figures = [field for table in tables for row in table.rows for field in row[1:] if isinstance(field, TableField)]
    known = [field for field in figures if field.to]
    assert len(known) > 10
    assert {field.to.removeprefix("#") for field in known} <= anchors
    assert all(field.why.startswith("from redlock · ") for field in known)


TINY = """
from dataclasses import replace
from harness.studies.systems.grid import systems_grid
from harness.studies.systems.study import study_of
from harness.studies.systems.table import CROWDS, FAULTS, SYSTEMS

SYSTEM = [system for system in SYSTEMS if system.name == "set-nx-px"]
GRID = systems_grid(
    "tiny", seeds=1, duration="2s", crowd_duration="500ms", systems=SYSTEM, faults=FAULTS[:1], crowds=CROWDS[:1]
)
STUDY = study_of(GRID)
"""


def test_a_tiny_form_is_played_and_measured(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(TINY)
    code, out, err = runs.fencepost(tmp_path, "study", "tiny.py", "--", "--recovery", "0")
    assert code == 0, out + err
    document = json.loads((tmp_path / "results" / "studies" / "tiny" / "report.json").read_text())
    (system,) = document["systems"]
    figures = system["figures"]
    assert figures["p50_ms"]["middle"] > 0
    assert figures["memory_mib"]["middle"] > 1
    assert figures["disk_mib"]["middle"] >= 0
    assert figures[f"per second: {CROWDS[0].name}"]["middle"] > 0
    assert system["rates"][f"served: {NO_FAULT}"]["rate"]["share"] > 0.5
    assert "1 system, 1 run under faults" in out


def test_a_name_that_no_study_has_is_refused_in_a_line(tmp_path: Path) -> None:
    code, out, err = runs.fencepost(tmp_path, "study", "sytems")
    assert (code, out) == (254, "")
    assert "known are findings, systems" in err
    assert len(err.splitlines()) == 1


def test_both_forms_are_found_by_name() -> None:
    whole, quick = (read_study(Path("systems"), None, None, {}, quick=quick) for quick in (False, True))
    assert (whole.grid.name, quick.grid.name) == ("systems", "systems-quick")
    assert quick.grid.run_count <= 62
    tried = {(cell.at["fault"], cell.at["data"]) for cell in quick.grid.parts[0].cells}
    assert {(PAUSED, WITHOUT), (PAUSED, WITH), (LED, WITHOUT)} <= tried, "what the headline is about"


def test_a_file_without_a_quick_form_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(TINY)
    with pytest.raises(UsageError, match="has no QUICK"):
        read_study(tmp_path / "tiny.py", None, None, {}, quick=True)
