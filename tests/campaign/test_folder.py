from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from fencepost.errors import BrokenEnvironmentError, UsageError
from harness.campaign import one_run
from harness.campaign.folder import Campaign, CampaignFolder, RunLine
from harness.campaign.grid import Headline
from harness.campaign.play import Plan, make_plan, play
from harness.cli.main import run
from harness.report.judged import Judged
from harness.store.run_folder import RunFolder
from tests.campaign import made
from tests.judge.histories import History


def claim(path: Path, campaign: Campaign | None = None) -> CampaignFolder:
    return CampaignFolder.claim(path, campaign or made.campaign())


def test_a_campaign_finds_its_folder_again_and_keeps_the_revision_it_began_with(tmp_path: Path) -> None:
    claim(tmp_path / "r").close()
    later = msgspec.structs.replace(made.campaign(), revision="other")
    folder = claim(tmp_path / "r", later)
    assert folder.campaign.revision == "1a2b3c"
    folder.close()


@pytest.mark.parametrize("may_grow", [False, True])
def test_a_campaign_goes_on_in_other_words(tmp_path: Path, *, may_grow: bool) -> None:
    claim(tmp_path / "r").close()
    grid = made.grid()
    part = msgspec.structs.replace(grid.parts[0], text="another text")
    says = Headline(text="Another answer.")
    reworded = msgspec.structs.replace(
        grid, title="t", question="Why?", introduction=("Once.",), headline=says, parts=(part, *grid.parts[1:])
    )
    folder = CampaignFolder.claim(tmp_path / "r", made.campaign(reworded), may_grow=may_grow)
    folder.close()
    assert folder.campaign.grid == reworded
    assert folder.campaign.command == made.campaign().command


@pytest.mark.parametrize(
    ("axes", "seeds", "words"),
    [(("clients=2,4",), 2, "cells"), (made.AXES, 3, "other seeds")],
)
def test_the_folder_of_another_campaign_is_refused(
    tmp_path: Path, axes: tuple[str, ...], seeds: int, words: str
) -> None:
    claim(tmp_path / "r").close()
    with pytest.raises(UsageError, match=words):
        claim(tmp_path / "r", made.campaign(made.grid(*axes, seeds=seeds)))


def test_a_campaign_of_an_older_fencepost_required_leases_and_goes_on_only_where_these_are_required(
    tmp_path: Path,
) -> None:
    claim(tmp_path / "r").close()
    begun = tmp_path / "r" / "campaign.json"
    begun.write_text(begun.read_text().replace('"schema_version": 2', '"schema_version": 1'))
    with pytest.raises(UsageError, match="with other options"):
        claim(tmp_path / "r")
    grid = made.grid()
    cells = (msgspec.structs.replace(cell, options=cell.options | {"require": "lease"}) for cell in grid.parts[0].cells)
    grid = msgspec.structs.replace(grid, parts=(msgspec.structs.replace(grid.parts[0], cells=tuple(cells)),))
    folder = claim(tmp_path / "r", made.campaign(grid))
    assert folder.campaign.grid == grid
    folder.close()


def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="no campaign's folder"):
        claim(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    claim(tmp_path).close()
    assert (tmp_path / "campaign.json").exists()


def test_two_processes_never_work_on_one_campaign(tmp_path: Path) -> None:
    folder = claim(tmp_path / "r")
    with pytest.raises(UsageError, match="another process"):
        claim(tmp_path / "r")
    folder.close()
    claim(tmp_path / "r").close()


def test_half_a_line_is_a_run_that_was_never_finished(tmp_path: Path) -> None:
    folder = claim(tmp_path / "r")
    whole = made.line("none · clients 2", 1)
    folder.append(whole)
    with (folder.path / "runs.jsonl").open("ab") as log:
        log.write(b'{"cell":"none \xc2\xb7 clients 2","seed":2,"fol')
    assert folder.lines() == [whole]
    folder.append(made.line("none · clients 2", 2))
    assert [line.seed for line in folder.lines()] == [1, 2]


class Pretended:
    """Runs that take no time: every slot that was made, and which of them break off."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, breaking: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        self.made: list[tuple[str, int]] = []
        self.breaking = breaking
        monkeypatch.setattr(one_run, "record_run", self._record)
        monkeypatch.setattr(one_run, "judge_and_draw", self._judge)

    def _record(self, prepared: object, folder: RunFolder, progress: object, enough: object) -> None:
        config = folder.read_config()
        self.made.append((config.persistence, config.seed))
        if len(self.made) in self.breaking:
            raise BrokenEnvironmentError("no space left")

    def _judge(self, folder: RunFolder) -> Judged:
        from harness.checkers.judge import judge
        from harness.explain.space_time import Album

        recorded = History().section("c1", 5, 90).recorded()
        return Judged(recorded, judge(recorded), {}, "", (), Album(recorded, folder))


@pytest.fixture
def plan() -> Plan:
    return make_plan(made.grid("persistence=none,aof-always", seeds=3), yes=False)


def played(plan: Plan, path: Path, out: Console | None = None) -> bool:
    folder = claim(path / "r", made.campaign(plan.grid))
    try:
        return play(plan, folder, path / "runs", "rev", out or Console(quiet=True))
    finally:
        folder.close()


def test_a_finished_campaign_makes_no_run_again_and_says_how_many_it_found(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Pretended(monkeypatch)
    assert played(plan, tmp_path)
    assert runs.made == [("none", 1), ("aof-always", 1), ("aof-always", 2), ("none", 2), ("none", 3), ("aof-always", 3)]
    assert played(plan, tmp_path, Console(width=200))
    assert len(runs.made) == 6
    assert "found 6 of them finished" in capsys.readouterr().out


def test_it_says_how_many_runs_and_how_long_before_the_first_one(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def record(*_: object) -> None:
        said.append(capsys.readouterr().out)
        raise BrokenEnvironmentError("that is enough")

    monkeypatch.setattr(one_run, "record_run", record)
    with pytest.raises(BrokenEnvironmentError):
        played(plan, tmp_path, Console(width=200))
    assert "2 cells, 3 seeds each" in said[0]
    assert "about 4 min" in said[0]


def test_a_run_that_broke_off_is_recorded_and_made_again_when_the_campaign_is_resumed(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Pretended(monkeypatch, breaking={2})
    assert not played(plan, tmp_path)
    assert len(runs.made) == 6
    lines = [line for line in (tmp_path / "r" / "runs.jsonl").read_text().splitlines() if "no space left" in line]
    assert len(lines) == 1
    assert played(plan, tmp_path)
    assert runs.made[6:] == [("aof-always", 1)]


def test_three_runs_in_a_row_that_break_off_end_it(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Pretended(monkeypatch, breaking={2, 3, 4})
    with pytest.raises(BrokenEnvironmentError, match="no space left"):
        played(plan, tmp_path)
    assert len(runs.made) == 4


def test_a_group_of_which_three_runs_in_a_row_broke_off_is_left_out_and_the_others_are_played(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Pretended(monkeypatch, breaking={1, 4, 5})  # all of `none`: seeds 1, 2 and 3 would be the 1st, 4th and 5th
    plan = make_plan(made.grid("persistence=none,aof-always", seeds=4), yes=False)
    folder = claim(tmp_path / "r", made.campaign(plan.grid))
    assert not play(plan, folder, tmp_path / "runs", "rev", Console(width=200), group_of=lambda cell: f"the {cell}")
    folder.close()
    made_of = [persistence for persistence, _ in runs.made]
    assert (made_of.count("none"), made_of.count("aof-always")) == (3, 4)
    assert "the none: three runs in a row" in capsys.readouterr().out


def test_a_run_that_was_made_resets_the_count_of_its_own_group_only(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Pretended(monkeypatch, breaking={1, 5})  # `none` with the seeds 1 and 3
    folder = claim(tmp_path / "r", made.campaign(plan.grid))
    assert not play(plan, folder, tmp_path / "runs", "rev", Console(quiet=True), group_of=str)
    folder.close()
    assert len(runs.made) == 6


def test_a_part_of_what_the_folder_holds_can_be_played_and_the_rest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Pretended(monkeypatch)
    whole = made.grid("persistence=none,aof-always", seeds=2)
    part = msgspec.structs.replace(whole, parts=(msgspec.structs.replace(whole.parts[0], seeds=1),))
    part = msgspec.structs.replace(part, parts=(msgspec.structs.replace(part.parts[0], cells=part.parts[0].cells[:1]),))
    for grid, new in ((whole, 4), (part, 0)):
        folder = CampaignFolder.claim(tmp_path / "r", made.campaign(grid), may_grow=True)
        before = len(runs.made)
        assert play(make_plan(grid, yes=False), folder, tmp_path / "runs", "rev", Console(width=200))
        assert len(runs.made) - before == new
        assert len(folder.lines()) == 4
        folder.close()
    assert "found 1 of them finished" in capsys.readouterr().out


def test_a_part_that_is_not_there_yet_is_played_beside_what_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Pretended(monkeypatch)
    for axis in ("persistence=none", "persistence=aof-always"):
        grid = msgspec.structs.replace(made.grid(axis, seeds=1), name="g")
        grid = msgspec.structs.replace(grid, parts=(msgspec.structs.replace(grid.parts[0], title="a part"),))
        folder = CampaignFolder.claim(tmp_path / "r", made.campaign(grid), may_grow=True)
        assert play(make_plan(grid, yes=False), folder, tmp_path / "runs", "rev", Console(quiet=True))
        folder.close()
    assert runs.made == [("none", 1), ("aof-always", 1)]


def test_lines_of_a_cell_that_the_grid_has_not_are_refused(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = claim(tmp_path / "r", made.campaign(plan.grid))
    folder.append(RunLine(cell="rdb", seed=1, folder="x", verdict="valid", took_s=1))
    folder.close()
    with pytest.raises(UsageError, match="'rdb'"):
        played(plan, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--axis", "clients=1,2", "--seeds", "5001"], "10,002 runs (2 cells); more than 10,000 need --yes"),
        (["--axis", "clients=1,none"], "cell 'none': --clients"),
        (["--axis", "nemesis=crash:restart-delay=soon,none"], "restart-delay"),
        (["--axis", "no-such-option=1,2"], "no-such-option"),
        (["--axis", "lock=redlock,redlok"], "redlok"),
        (["--axis", "clients=1,2", "--", "--seed", "4"], "--seed belongs to the campaign"),
        (["--axis", "clients=1,2", "--seeds", "0"], "--seeds is 0; it must be at least 1"),
        (["--axis", "clients=1,2", "--seeds", "many"], "--seeds"),
        (["--axis", "clients=1,2", "--first-seed", "-3"], "--first-seed is -3"),
        (["--grid", "nothing"], "known are fsync"),
        (["--grid", "fsync", "--axis", "clients=1"], "either --axis"),
        ([], "either --axis"),
        (["--axis", "clients=1,2", "--report", "foreign"], "no campaign's folder"),
    ],
)
def test_bad_input_is_one_clear_line_and_254_before_anything_starts(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "file").touch()
    common = [] if "--" in arguments or not arguments else ["--", "--cluster", "process"]
    assert run(["compare", *arguments, *common]) == 254
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert words in err
    assert [path.name for path in tmp_path.iterdir()] == ["foreign"]


def test_more_than_10000_runs_are_made_when_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = made.grid("clients=1,2", seeds=5001)
    assert make_plan(grid, yes=True).grid.run_count == 10_002
