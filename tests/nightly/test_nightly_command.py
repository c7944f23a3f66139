"""`fencepost nightly` as a user runs it, with runs that take no time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.campaign import study
from harness.campaign.folder import CampaignFolder, RunLine
from harness.campaign.play import Plan
from harness.cli.main import run
from harness.nightly.nights import Failing, Night, keep_night, read_nights
from tests.campaign import made
from tests.survey.made import blamed

WORDS = ["nightly", "--quick"]


class Pretended:
    """Runs that take no time. `broken`: locks with a violation for which they are to blame; `missing`: locks whose runs
    are never made; `words`: the options of each run, by cell; `planned`: how many runs a night has."""

    def __init__(self) -> None:
        self.broken = {"control-quorum-of-two", "control-no-validity-check"}
        self.missing = set[str]()
        self.words = dict[str, list[str]]()
        self.planned = 0

    def play(self, plan: Plan, folder: CampaignFolder, *_: Any, group_of: Any, **__: Any) -> bool:
        self.planned = plan.grid.run_count
        for name, (_, cell) in plan.grid.cells.items():
            lock = cell.at["lock"]
            assert group_of(name) == lock
            if lock in self.missing:
                continue
            self.words[name] = plan.grid.words(name, plan.grid.first_seed)
            found = (blamed("overlap"),) if lock in self.broken else ()
            folder.append(
                RunLine(
                    cell=name,
                    seed=plan.grid.first_seed,
                    folder=f"run-{lock}",
                    verdict="violation" if found else "valid",
                    took_s=1,
                    figures=made.figures(blamed=found),
                )
            )
        return not self.missing


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pretended]:
    runs = Pretended()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study, "play", runs.play)
    monkeypatch.setattr(study, "remove_leftovers", lambda _: None)
    monkeypatch.setattr(study, "playable", lambda grid, _: (Plan(grid, {}), {}))
    monkeypatch.setattr("harness.cli.setup.install", lambda *_, **__: 0)
    return runs


def page(tmp_path: Path) -> str:
    return (tmp_path / "results" / "nightly" / "index.html").read_text()


def test_a_night_in_which_every_control_was_caught_is_green(
    pretended: Pretended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(WORDS) == 0
    assert "2 controls caught; violations in 0 of" in capsys.readouterr().out
    assert "GREEN" in page(tmp_path)
    assert "This is the first night." in page(tmp_path)
    assert pretended.planned < 20, "the quick form is to take some minutes"


def test_a_control_that_passes_makes_the_night_red(
    pretended: Pretended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretended.broken.remove("control-quorum-of-two")
    assert run(WORDS) == 1
    assert "not caught: control-quorum-of-two" in capsys.readouterr().out
    assert "RED" in page(tmp_path)


def test_a_correct_lock_that_is_blamed_makes_the_night_red(pretended: Pretended, tmp_path: Path) -> None:
    pretended.broken.add("redlock")
    assert run(WORDS) == 1
    assert "blamed although correct: redlock" in page(tmp_path)


def test_a_library_that_breaks_its_promise_is_a_result_and_its_seed_is_played_first_the_next_night(
    pretended: Pretended, tmp_path: Path
) -> None:
    folder = tmp_path / "results" / "nightly"
    failing = (Failing("redlock-ng", "process", 77), Failing("of another machine", "process", 5))
    keep_night(folder_of(folder), Night(date="2020-01-01", revision="a", first_seed=1, played=(), failing=failing))
    pretended.broken.add("redlock-ng")
    before = datetime.now(UTC).date()
    assert run(WORDS) == 0
    after = datetime.now(UTC).date()  # the next day, if it was midnight
    first = next(iter(pretended.words))
    assert first == "redlock-ng · process · seed 77 again"
    assert "--seed=77" in pretended.words[first]
    tonight = read_nights(folder)[-1]
    assert Failing("redlock-ng", "process", 77) in tonight.failing
    assert {one.lock for one in tonight.failing} == {"redlock-ng"}
    assert tonight.first_seed in {day.toordinal() * 1_000 for day in (before, after)}
    assert "redlock-ng on process was never played before." in page(tmp_path)


def folder_of(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize("lock", ["pottery", "control-no-validity-check"])
def test_a_night_without_some_of_its_runs_is_not_green(lock: str, pretended: Pretended, tmp_path: Path) -> None:
    pretended.missing.add(lock)
    assert run(WORDS) == 2
    assert "UNFINISHED" in page(tmp_path)
    assert "1 run missing" in page(tmp_path)
