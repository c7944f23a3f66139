"""The published reports are records: a newer version reads their lines and draws them again, with the same numbers."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from harness.campaign.aggregate import summaries
from harness.campaign.export import cells_frame
from harness.campaign.folder import Campaign, CampaignFolder
from harness.cli.main import run

PUBLISHED = sorted(path.parent for path in Path(__file__, "../../../results/reports").resolve().glob("*/campaign.json"))


def campaign_of(report: Path) -> Campaign:
    return msgspec.json.decode((report / "campaign.json").read_bytes(), type=Campaign)


def test_there_are_published_reports() -> None:
    assert {"fsync", "libraries"} <= {path.name for path in PUBLISHED}


@pytest.mark.parametrize("report", PUBLISHED, ids=lambda path: path.name)
def test_the_numbers_of_a_published_report_are_read_as_they_were_written(report: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(report, tmp_path / report.name)
    folder = CampaignFolder.claim(copy, campaign_of(copy))
    lines = folder.lines()
    folder.close()
    now = cells_frame(summaries(folder.campaign.grid, lines))
    kept = pd.read_csv(report / "cells.csv").rename(columns=lambda name: name.replace("strikes", "node_outages"))
    assert kept["node_outages"].sum() > 0
    now = pd.read_csv(_text_of(now, tmp_path))[kept.columns]
    pd.testing.assert_frame_equal(now, kept)


def _text_of(frame: pd.DataFrame, place: Path) -> Path:
    frame.to_csv(place / "now.csv", index=False)
    return place / "now.csv"


def test_a_published_report_is_drawn_again_without_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (report,) = (path for path in PUBLISHED if path.name == "libraries")
    copy = shutil.copytree(report, tmp_path / "again")
    command = shlex.split(campaign_of(copy).command)[1:]
    monkeypatch.chdir(tmp_path)
    assert run([*command, "--report", str(copy), "--results", str(tmp_path / "runs")]) == 0
    assert "found 48 of them finished" in capfd.readouterr().out
    assert not (tmp_path / "runs").exists()
    assert "| node outages |" in (copy / "report.md").read_text()
    assert (copy / "runs.jsonl").read_bytes() == (report / "runs.jsonl").read_bytes()
