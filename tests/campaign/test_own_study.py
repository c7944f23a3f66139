"""A study of one's own: a Python file in a folder of the user's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.main import run
from tests.harness import runs

EXAMPLE = Path(__file__).parents[2] / "examples" / "studies" / "retry_delay.py"
SHORT = ("--seeds", "1", "--", "--duration", "500ms")


def test_the_example_is_played_and_its_document_written_and_a_second_call_makes_no_run(tmp_path: Path) -> None:
    code, out, err = runs.fencepost(tmp_path, "study", str(EXAMPLE), *SHORT)
    assert code == 0, out + err
    place = tmp_path / "results" / "studies" / "retry-delay"
    document = json.loads((place / "report.json").read_text())
    assert document["finished"] == document["planned"] == 3
    assert document["versions"].keys() >= {"fencepost", "servers", "Toxiproxy"}
    assert all(of and min(of) > 0 for of in document["speeds"].values())
    page, text, lines = ((place / name).read_text() for name in ("index.html", "report.md", "runs.jsonl"))
    assert "<td>" in page
    assert text.count("/s |") == 3
    assert (place / "runs.csv").read_text().count("\n") == 4

    code, out, err = runs.fencepost(tmp_path, "study", str(EXAMPLE), *SHORT)
    assert code == 0, out + err
    assert "found 3 of them finished" in out
    assert (place / "runs.jsonl").read_text() == lines


def written(folder: Path, text: str) -> str:
    file = folder / "mine.py"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("STUDY = 5", "has no STUDY"),
        ("import nothing_of_that_name", "cannot be read: ModuleNotFoundError"),
        (
            "from harness.campaign.grid import Grid\nfrom harness.campaign.study import Study\n"
            "STUDY = Study(grid=Grid(name='g', title='', question='', parts=()), settle=len, document=len)",
            "has no cells",
        ),
    ],
)
def test_a_file_that_is_no_study_is_one_line(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["study", written(tmp_path, text)]) == 254
    said = capfd.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"mine.py"}


def test_a_rule_that_fails_is_one_line_and_the_runs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.campaign.study.play", lambda *_, **__: True)
    monkeypatch.setattr("harness.campaign.study.remove_leftovers", lambda _: None)
    file = written(
        tmp_path, EXAMPLE.read_text().replace('"""What the record says:', 'raise ZeroDivisionError("oh")\n    """')
    )
    assert run(["study", file]) == 254
    said = capfd.readouterr().err
    assert "settle failed: ZeroDivisionError: oh" in said
    assert len(said.splitlines()) == 1
    assert (tmp_path / "results" / "studies" / "retry-delay" / "campaign.json").exists()
