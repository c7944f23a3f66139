"""A campaign as a user makes it, interrupted and resumed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from tests.harness import runs

ARGUMENTS = [
    *("compare", "--axis", "lock=redlock,control-quorum-of-two", "--seeds", "2", "--report", "report"),
    # Two groups of clients, each with two nodes or more, most of the time: what a quorum of two cannot survive.
    *("--", "--cluster", "process", "--nemesis", "partition:interval=200ms,duration=1s,shape=halves,kind=refuse"),
    *("--clients", "6", "--duration", "2s", "--recovery", "200ms", "--hold", "uniform:30ms-80ms"),
]


def lines_of(folder: Path) -> list[dict[str, object]]:
    log = folder / "report" / "runs.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_a_campaign_keeps_what_there_is_on_ctrl_c_and_goes_on_from_there(tmp_path: Path) -> None:
    process = runs.start(tmp_path, *ARGUMENTS)
    deadline = time.monotonic() + 60
    while not (first := lines_of(tmp_path)) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    code, out, err = runs.finish(process)
    assert code == 2, out + err
    assert "4 runs (2 cells, 2 seeds each)" in out
    assert "interrupted" in out
    assert err == ""
    first = lines_of(tmp_path)
    assert 1 <= len(first) < 4
    page = (tmp_path / "report" / "index.html").read_text()
    assert "This campaign is not finished" in page

    code, out, err = runs.fencepost(tmp_path, *ARGUMENTS)
    assert code == 0, out + err
    assert f"found {len(first)} of them finished" in out
    lines = lines_of(tmp_path)
    assert lines[: len(first)] == first
    assert {(line["cell"], line["seed"]) for line in lines} == {
        (cell, seed) for cell in ("redlock", "control-quorum-of-two") for seed in (1, 2)
    }
    assert len(lines) == 4
    for line in lines:
        folder = tmp_path / "results" / "runs" / str(line["folder"])
        assert json.loads((folder / "verdict.json").read_text())["verdict"] == line["verdict"]
        assert runs.processes_of(folder) == []

    report = json.loads((tmp_path / "report" / "report.json").read_text())
    by_cell = {cell["cell"]: cell for cell in report["cells"]}
    hit = [line["cell"] for line in lines if line["verdict"] == "violation"]
    assert set(hit) == {"control-quorum-of-two"}
    assert by_cell["redlock"]["runs_with_overlap_lock"] == 0
    # A quorum of two is found out with or without an overlap.
    assert by_cell["control-quorum-of-two"]["runs_violation"] == len(hit)
    assert by_cell["redlock"]["acquisitions_per_s"] > 1
    page = (tmp_path / "report" / "index.html").read_text()
    assert "This campaign is not finished" not in page
    overlapping = {line["cell"] for line in lines if line["figures"]["overlaps"]["lock"]}  # type: ignore[index]
    assert page.count("data-timeline=") == len(overlapping)
    assert str(lines[0]["folder"]) in page
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        *("campaign.json", "runs.jsonl", "timelines", "index.html", "report.md", "cells.csv", "runs.csv", "report.json")
    }
