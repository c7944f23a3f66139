"""The published reports are records: a newer version reads their lines and draws them again, with the same numbers."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from harness.campaign.aggregate import summaries
from harness.campaign.export import cells_frame
from harness.campaign.folder import CampaignFolder, read_campaign, read_run_lines
from harness.cli.main import run

RESULTS = Path(__file__, "../../../results").resolve()
PUBLISHED = sorted(path.parent for path in RESULTS.glob("reports/*/campaign.json"))


def test_there_are_published_reports() -> None:
    assert {"fsync", "fsync-containers"} <= {path.name for path in PUBLISHED}


@pytest.mark.parametrize("report", PUBLISHED, ids=lambda path: path.name)
def test_the_numbers_of_a_published_report_are_read_as_they_were_written(report: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(report, tmp_path / report.name)
    folder = CampaignFolder.claim(copy, read_campaign(copy))
    lines = folder.lines()
    folder.close()
    now = cells_frame(summaries(folder.campaign.grid, lines))
    kept = pd.read_csv(report / "cells.csv").rename(columns=lambda name: name.replace("strikes", "node_outages"))
    assert kept["node_outages"].sum() > 0
    kept = kept[[name for name in kept if not name.endswith(("_low", "_high"))]]  # those are by the method of its time
    now = pd.read_csv(_text_of(now, tmp_path))[kept.columns]
    pd.testing.assert_frame_equal(now, kept)


def _text_of(frame: pd.DataFrame, place: Path) -> Path:
    frame.to_csv(place / "now.csv", index=False)
    return place / "now.csv"


def test_every_published_page_and_text_is_what_its_record_says_now() -> None:
    root = RESULTS.parent
    checked = subprocess.run(
        [sys.executable, "tools/published.py", "--check"], cwd=root, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout) == (0, "every published page is as its record says\n"), checked.stderr


REVISION = re.compile(r"\b[0-9a-f]{12}\b")
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
COMMAND = re.compile(r"\b(?:fencepost [a-z]+|python benchmarks/)")


def lacking(text: str) -> list[str]:
    """What such a page does not say of how it was made."""
    said = {"revision": REVISION, "date": DATE, "command": COMMAND}
    return [what for what, pattern in said.items() if not pattern.search(text)]


def test_every_published_page_says_by_which_revision_when_and_by_which_command_it_was_made() -> None:
    records = [path.parent for path in RESULTS.rglob("campaign.json") if "quick" not in path.parts]
    pages = [page for folder in (RESULTS, *records) for page in folder.glob("*.md")]
    pages += (RESULTS / "survey" / "findings").glob("*.md")
    assert len(pages) > 20
    assert {str(page): found for page in pages if (found := lacking(page.read_text()))} == {}
    assert lacking("`make it` on 25 November, at 1a2b3c") == ["revision", "date", "command"]


@pytest.mark.parametrize(
    ("kept", "made", "same"),
    [
        ("a,0.09739375591447927", "a,0.0973937559144794", True),
        ("a,0.09739375591447927", "b,0.09739375591447927", False),
        ("a,0.09739375591447927", "a,0.09739375691447927", False),
        ("a,0.0973", "a,0.0974", False),
        ("a,36", "a,37", False),
    ],
)
def test_only_the_last_digits_of_a_long_number_may_differ(kept: str, made: str, same: bool) -> None:
    """They do between processors."""
    code = f"from published import is_same; print(is_same({kept.encode()!r}, {made.encode()!r}))"
    tools = RESULTS.parent / "tools"
    told = subprocess.run([sys.executable, "-c", code], cwd=tools, capture_output=True, text=True, check=True)
    assert told.stdout == f"{same}\n"


def _again(command: list[str], report: Path, place: Path) -> list[str]:
    """The command, with other folders: options of its own stand before a `--`."""
    return [command[0], "--report", str(report), "--results", str(place / "runs"), *command[1:]]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing was set up: no lock, no server, no proxy, no engine."""
    for name in ("PATH", "FENCEPOST_TOOLS"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'no-engine'}")


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(("published", "exit_code"), [("reports/fsync", 0), ("claims/published", 1)])
def test_a_published_report_is_drawn_again_without_what_made_its_runs(
    published: str, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(RESULTS / published, tmp_path / "again")
    drawn = {path.name for path in copy.iterdir() if path.suffix in {".html", ".md", ".csv"}}
    for name in drawn:
        (copy / name).unlink()
    command = shlex.split(read_campaign(copy).command.splitlines()[-1])[1:]
    monkeypatch.chdir(tmp_path)
    assert run(_again(command, copy, tmp_path)) == exit_code
    said = capfd.readouterr().out
    made = len({line.slot for line in read_run_lines(copy)})
    assert f"found {made} of them finished" in said
    assert "left out" not in said
    assert not (tmp_path / "runs").exists()
    assert drawn <= {path.name for path in copy.iterdir()}
    assert (copy / "runs.jsonl").read_bytes() == (RESULTS / published / "runs.jsonl").read_bytes()


def test_a_report_that_lacks_a_run_says_which_lock_it_needs(
    bare: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(RESULTS / "reports" / "fsync", tmp_path / "again")
    lines = (copy / "runs.jsonl").read_text().splitlines(keepends=True)
    lines.remove(next(line for line in lines if "· redlock-ng" in line))
    (copy / "runs.jsonl").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    command = shlex.split(read_campaign(copy).command)[1:]
    assert run(_again(command, copy, tmp_path)) == 254
    said = capfd.readouterr().err
    assert len(said.splitlines()) == 1
    assert "fencepost setup --lock redlock-ng" in said
