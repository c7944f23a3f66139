"""`fencepost survey` as a user runs it, with runs that take no time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import UsageError
from harness.campaign import study
from harness.campaign.folder import CampaignFolder
from harness.campaign.play import Plan
from harness.cli.main import run
from harness.survey.subjects import SUBJECTS
from tests.survey.made import blamed, line

WORDS = ["survey", "--quick", "--cluster", "process", "--only"]


class Pretended:
    """Runs that take no time. `broken`: subjects that are blamed in every run; `missing`: those that are never made."""

    def __init__(self) -> None:
        self.broken = {"control-quorum-of-two"}
        self.missing = set[str]()
        self.made = list[str]()

    def play(self, plan: Plan, folder: CampaignFolder, *_: Any, group_of: Any, **__: Any) -> bool:
        there = {one.slot for one in folder.lines()}
        for name in plan.grid.cells:
            subject, fault, use = plan.grid.at(name).values()
            assert group_of(name) == subject
            found = [blamed("overlap")] if subject in self.broken else []
            one = line(subject, fault, use, *found, verdict="violation" if found else "valid")
            if one.slot not in there and subject not in self.missing:
                folder.append(one)
                self.made.append(subject)
        return not any(group_of(name) in self.missing for name in plan.grid.cells)


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pretended]:
    runs = Pretended()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study, "play", runs.play)
    monkeypatch.setattr(study, "remove_leftovers", lambda _: None)
    monkeypatch.setattr("harness.cli.setup.install", lambda *_, **__: 0)
    return runs


def test_the_page_is_written_and_the_controls_decide_the_exit_code(
    pretended: Pretended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*WORDS, "redlock", "--only", "control-quorum-of-two"]) == 0
    out = capsys.readouterr().out
    assert "no library was played yet; 20 runs of locks of ours." in out
    folder = tmp_path / "results" / "survey" / "quick"
    assert {path.name for path in folder.iterdir()} >= {"index.html", "survey.md", "survey.csv", "survey.json"}
    pretended.broken = {"redlock"}
    again = [*WORDS, "redlock", "--only", "control-quorum-of-two", "--report", "other"]
    assert run(again) == 1, "a correct lock was blamed, and a broken one was not"


@pytest.mark.parametrize("report", [[], ["--report", "mine"]], ids=["quick", "elsewhere"])
def test_published_findings_explain_what_a_survey_in_another_folder_finds(
    report: list[str], pretended: Pretended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = tmp_path / "results" / "survey" / "findings"
    published.mkdir(parents=True)
    about = "subject: redlock-ng\npromise: exclusive\nfinding: overlap\nverdict: violation\nrun: it.tar.xz"
    (published / "it.md").write_text(f"---\n{about}\n---\n# It\n\n[More](more.md).\n")
    pretended.broken |= {"redlock-ng"}
    assert run([*WORDS, "redlock-ng", *report]) == 0
    assert "1 lock broke a promise (redlock-ng)" in capsys.readouterr().out
    place, up = ("mine", "../results/survey/findings") if report else ("results/survey/quick", "../findings")
    assert f'href="{up}/more.md"' in (tmp_path / place / "index.html").read_text()


def test_a_subject_that_is_played_later_joins_the_page(
    pretended: Pretended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*WORDS, "redlock"]) == 0
    assert run([*WORDS, "control-quorum-of-two"]) == 0
    document = json.loads((tmp_path / "results" / "survey" / "quick" / "survey.json").read_bytes())
    assert {each["name"]: each["runs"] for each in document["subjects"]} == {"redlock": 10, "control-quorum-of-two": 10}
    assert run([*WORDS, "redlock"]) == 0
    assert len(pretended.made) == 20, "nothing is made again"


def test_a_subject_that_cannot_be_installed_is_one_line_and_the_rest_is_played(
    pretended: Pretended, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def installed(lock: str, _: object) -> None:
        if lock == "redsync":
            raise UsageError("the lock redsync is not installed: run `fencepost setup --lock redsync`")

    monkeypatch.setattr("harness.run.prepare.check_lock", installed)
    assert run([*WORDS, "redlock", "--only", "redsync"]) == 2
    out = capsys.readouterr().out
    assert out.count("redsync is left out, or a part of it: the lock redsync is not installed") == 1
    assert set(pretended.made) == {"redlock"}
    assert run([*WORDS, "redsync", "--report", "alone"]) == 254


def test_a_survey_whose_runs_are_on_record_is_drawn_again_without_their_locks(
    pretended: Pretended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = list[str]()
    monkeypatch.setattr("harness.cli.setup.install", lambda locks, **_: installed.extend(lock.name for lock in locks))
    monkeypatch.setattr("harness.run.prepare.check_lock", lambda *_: None)
    words = [*WORDS, "redlock", "--only", "redsync"]
    assert run(words) == 0
    assert installed == ["redsync"]

    def refuse(lock: str, _: object) -> None:
        raise UsageError(f"the lock {lock} is not installed")

    monkeypatch.setattr("harness.run.prepare.check_lock", refuse)
    (tmp_path / "results" / "survey" / "quick" / "index.html").unlink()
    capsys.readouterr()
    assert run(words) == 0
    assert "left out" not in capsys.readouterr().out
    assert installed == ["redsync"], "nothing is installed for runs that are on record"
    assert (tmp_path / "results" / "survey" / "quick" / "index.html").exists()


def test_a_survey_of_another_fencepost_is_refused(
    pretended: Pretended, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*WORDS, "redlock", "--report", "r"]) == 0
    file = tmp_path / "r" / "campaign.json"
    file.write_text(file.read_text().replace("client paused", "server on the moon"))
    capfd.readouterr()
    assert run([*WORDS, "redlock", "--report", "r"]) == 254
    assert "with the fault 'server on the moon'" in capfd.readouterr().err


def test_runs_that_are_missing_are_exit_code_2_and_the_page_says_which(pretended: Pretended, tmp_path: Path) -> None:
    pretended.missing = {"redlock-ng"}
    assert run([*WORDS, "redlock", "--only", "redlock-ng", "--report", "r"]) == 2
    assert "redlock-ng: not played." in (tmp_path / "r" / "index.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "redlok"], "did you mean redlock?"),
        (["--seeds", "0"], "--seeds is 0"),
        (["--workers", "many"], "is not a number"),
        (["--only", "redlock", "--report", "foreign"], "no campaign's folder"),
        (["--only", "redlock", "--report", "texts"], "does not begin with what it is about"),
    ],
)
def test_bad_input_is_one_clear_line_and_254_before_anything_starts(
    pretended: Pretended, arguments: list[str], words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "file").touch()
    (tmp_path / "texts" / "findings").mkdir(parents=True)
    (tmp_path / "texts" / "findings" / "mine.md").write_text("# What is this about?")
    assert run(["survey", "--quick", "--cluster", "process", *arguments]) == 254
    _, err = capfd.readouterr()
    assert words in err
    assert len(err.splitlines()) == 1
    assert pretended.made == []


def test_the_list_shows_everybody_with_version_and_language(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["survey", "--list"]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) == len(SUBJECTS)
    assert "redlock-ng: redlock-ng 2.0.4, python, 5 servers" in out
