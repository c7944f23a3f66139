"""Mutants on a real cluster of processes, played as a user does."""

from __future__ import annotations

import json
from pathlib import Path

from tests.harness import runs

PLAYED = {"frees without comparing": "overlap", "counts from the answers": "overstated-validity"}


def test_mutants_are_played_until_they_are_found_and_the_table_grows(tmp_path: Path) -> None:
    options = ("mutants", "--quick", "--workers", "1", "--report", "table")
    for name, said in zip(PLAYED, ("The mutant was", "All 2 mutants were"), strict=True):
        code, out, err = runs.fencepost(tmp_path, *options, "--only", name, timeout_s=120)
        assert code == 0, out + err
        assert f"{said} found and named within 60 s." in out
    table = json.loads((tmp_path / "table" / "table.json").read_bytes())
    assert {row["name"]: row["finding"] for row in table["rows"]} == PLAYED
    for row in table["rows"]:
        (field,) = row["fields"].values()
        assert (field["runs"], field["named"]) == (1, 1)
        assert 0 <= field["median_ms"] < 60_000
    for run in table["runs"]:
        folder = tmp_path / "results" / "runs" / run["folder"]
        timeline = json.loads((folder / "timeline.json").read_bytes())
        assert timeline["healed_ns"] - timeline["start_ns"] < 50e9, "a run ends when it has shown what it was made for"
        assert timeline["interrupted"] is False
        assert runs.processes_of(folder) == []
    assert (tmp_path / "table" / "table.md").read_text().startswith("# What finds a broken lock")


def test_a_name_that_no_mutant_has_is_one_line(tmp_path: Path) -> None:
    code, _, err = runs.fencepost(tmp_path, "mutants", "--only", "nobody")
    assert code == 254
    assert "docs/mutants.md" in err
    assert len(err.strip().splitlines()) == 1
