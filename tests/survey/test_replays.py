"""The study that replays the published findings."""

from __future__ import annotations

import pytest

from harness.campaign.folder import RunLine
from harness.campaign.grid import check
from harness.options import parse_run
from harness.studies.findings.evidence import block
from harness.studies.findings.study import QUICK, STUDY, Replayed, headline, replayed
from harness.studies.findings.table import ALSO_SHOWN, PUBLISHED_AS, RECOMMENDED, REPLAYS, TIGHT
from harness.survey.findings import read_findings
from tests.campaign import made
from tests.harness.runs import ROOT
from tests.survey.made import blamed

CELL = "late-reply · redis-py-lock · tight: TTL 1 s"


DOWN = "redlock-py-one-server-down · redlock-py · tight: TTL 1 s"
VERSIONS = {"servers": "redis 8", "lock libraries": "redlock-py 1.0.8"}
HUNG = "redlock-py-one-server-hung · redlock-py · tight: TTL 1 s"


def line(seed: int, *kinds: str, error: str | None = None, cell: str = CELL) -> RunLine:
    figures = made.figures(blamed=tuple(map(blamed, kinds)))
    return RunLine(
        cell=cell,
        seed=seed,
        folder=f"20260131T1{seed}0000",
        verdict="valid",
        took_s=1,
        figures=figures,
        error=error,
        versions=VERSIONS,
    )


def found(*lines: RunLine) -> dict[str, Replayed]:
    return {one.finding: one for one in replayed(STUDY.grid, lines) if one.cell == CELL}


@pytest.mark.parametrize(
    ("kinds", "shown", "is_shown"),
    [
        ([("late-grant",)] * 3, 3, True),
        ([("late-grant",), ("overlap",), ("late-grant", "overlap")], 2, False),
        ([("late-grant",)] * 2, 2, False),
        ([], 0, False),
    ],
)
def test_a_finding_shows_if_each_of_three_runs_has_it(kinds: list[tuple[str, ...]], shown: int, is_shown: bool) -> None:
    one = found(*(line(seed, *some) for seed, some in enumerate(kinds, start=1)))["late-reply"]
    assert (len(one.shown), one.is_shown) == (shown, is_shown)


def test_a_run_that_was_aborted_shows_nothing() -> None:
    one = found(line(1, "late-grant"), line(2, "late-grant"), line(3, "late-grant", error="x"))["late-reply"]
    assert (one.said, one.is_shown) == ("2 of 2 runs", False)


def test_the_runs_of_one_finding_may_show_another() -> None:
    both = found(*(line(seed, "acquire-overrun") for seed in (1, 2, 3)))
    assert (both["late-reply"].is_shown, both["late-reply-overruns-the-timeout"].is_shown) == (False, True)


def three(cell: str, *kinds: str) -> list[RunLine]:
    return [line(seed, *kinds, cell=cell) for seed in (1, 2, 3)]


def test_a_server_that_hangs_is_told_in_the_text_on_one_that_is_down_and_is_the_same_pair() -> None:
    found = replayed(STUDY.grid, [*three(DOWN, "unavailable-while-free"), *three(HUNG, "unavailable-while-free")])
    played = [one for one in found if one.lines]
    assert [(one.finding, one.cell) for one in played] == [(DOWN.split(" · ")[0], cell) for cell in (DOWN, HUNG)]
    assert headline(found) == "1 finding: 1 of 1 pair of a finding and a lock show in every run"
    half = replayed(STUDY.grid, [*three(DOWN, "unavailable-while-free"), *three(HUNG)])
    assert headline(half) == "1 finding: 0 of 1 pair of a finding and a lock show in every run"


def test_a_text_names_the_fault_of_each_row_only_where_faults_differ() -> None:
    def heads(*lines: RunLine) -> list[str]:
        found = [one for one in replayed(STUDY.grid, lines) if one.finding == DOWN.split(" · ")[0]]
        return [row for row in block(found, made.campaign(STUDY.grid)).splitlines() if row.startswith("| ")]

    both = heads(*three(DOWN, "unavailable-while-free"), *three(HUNG))
    assert [row.split(" | ")[2] for row in both] == [
        "fault",
        "crash:targets=one,restart-delay=4ttl,interval=5s",
        "pause:targets=one-node,duration=7ttl",
    ]
    assert "fault" not in heads(*three(DOWN, "unavailable-while-free"))[0]


@pytest.mark.parametrize("study", [STUDY, QUICK], ids=["whole", "quick"])
def test_every_cell_is_a_run_with_the_ttl_that_its_settings_name(study: object) -> None:
    grid = check(study.grid)  # type: ignore[attr-defined]
    for name, (_, cell) in grid.cells.items():
        config = parse_run(grid.words(name, 1))
        assert cell.at["settings"].endswith(f"TTL {config.ttl_ms / 1000:g} s")
        assert (cell.at["settings"] == TIGHT) == (config.ttl_ms == 1_000)


def test_every_published_finding_has_its_replays_and_a_documented_ttl_names_its_place() -> None:
    known = {(replay.finding, replay.lock) for replay in REPLAYS}
    known |= {(PUBLISHED_AS.get(name, name), lock) for name, lock in known}
    known |= {(also.finding, lock) for also in ALSO_SHOWN for lock in also.locks}
    published = read_findings(ROOT / "results" / "survey" / "findings")
    assert {(one.name, lock) for one in published for lock in one.about.subjects} <= known
    assert all(one.place for one in RECOMMENDED.values())
