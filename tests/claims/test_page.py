"""Every form of the page, from lines as runs would leave them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from harness.campaign.folder import Campaign, CampaignFolder, RunLine
from harness.campaign.study import read_played, write_document
from harness.claims.grid import chosen, claims_grid
from harness.claims.page import document_of
from harness.claims.session import settle_all
from harness.claims.settle import SettledClaim

NAMES = ["crash-no-persistence", "fencing-writes-only"]
HOSTILE = "</script><script>alert(1)</script>"
REPEATS = 2


def line(cell: str, seed: int, outcome: Literal["held", "failed"] = "held") -> RunLine:
    folder = f"run-{cell}-{seed}"
    return RunLine(cell=cell, seed=seed, folder=folder, verdict="violation", took_s=2, outcome=outcome)


def timeline(cell: str) -> dict[str, object]:
    return {"folder": f"run-{cell}-1", "seed": 1, "data": {"clients": [HOSTILE]}, "show": 0, "text": HOSTILE}


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, list[SettledClaim]]:
    """All runs of the two claims are there, and all expectations held."""
    claims = chosen(NAMES)
    grid = claims_grid(claims, REPEATS, "process")
    campaign = Campaign(grid=grid, revision="1a2b3c", command="fencepost claims", machine={"cores": 2})
    folder = CampaignFolder.claim(tmp_path / "report", campaign)
    for cell in grid.cells:
        for seed in range(1, REPEATS + 1):
            folder.append(line(cell, seed))
        folder.keep_timeline(cell, timeline(cell))
    settled = settle_all(claims, REPEATS, folder.lines())
    write_document(document_of(read_played(folder, {}), settled), folder.path)
    folder.close()
    return folder.path, settled


def test_the_page_has_a_row_and_a_picture_for_each_claim_and_foreign_text_does_not_break_it(
    written: tuple[Path, list[SettledClaim]],
) -> None:
    page = (written[0] / "index.html").read_text()
    assert "2 claims: 1 confirmed, 1 refuted." in page
    assert page.count("data-timeline=") == 2
    assert "alert(1)</script>" not in page
    assert "run-fencing-of-writes-alone-1" in page, "the picture of a refuted claim is of what speaks against it"
    assert "2 of 2: 100 % (16 % to 100 %)" in page
    assert "fencepost script crash-without-persistence --cluster=process" in page
    assert "http://" not in page.partition("The documents")[0].replace("http://www.w3.org", "")


def test_the_other_forms_say_the_same(written: tuple[Path, list[SettledClaim]]) -> None:
    path, settled = written
    document = json.loads((path / "claims.json").read_bytes())
    assert [(claim["name"], claim["answer"]) for claim in document["claims"]] == [
        ("crash-no-persistence", "confirmed"),
        ("fencing-writes-only", "refuted"),
    ]
    assert [claim["as_predicted"] for claim in document["claims"]] == [True, True]
    rows = list(csv.DictReader(io.StringIO((path / "claims.csv").read_text())))
    assert len(rows) == sum(len(each.tried) for each in settled)
    assert {row["held"] for row in rows} == {"2"}
    markdown = (path / "claims.md").read_text()
    assert "### fencing-writes-only: refuted" in markdown
    assert all(each.claim.name in markdown for each in settled)


def test_a_page_of_half_a_session_says_that_runs_are_missing(tmp_path: Path) -> None:
    claims = chosen(NAMES[:1])
    campaign = Campaign(grid=claims_grid(claims, REPEATS, None), revision="", command="", machine={})
    folder = CampaignFolder.claim(tmp_path / "report", campaign)
    folder.append(line("crash-without-persistence", 1))
    settled = settle_all(claims, REPEATS, folder.lines())
    write_document(document_of(read_played(folder, {}), settled), folder.path)
    folder.close()
    assert "Not all runs are finished" in (folder.path / "index.html").read_text()
    assert settled[0].answer == "undecided"
    assert "3 runs are still to be made" in settled[0].why
    assert msgspec.json.decode((folder.path / "claims.json").read_bytes())["claims"][0]["answer"] == "undecided"
