"""`fencepost claims` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fencepost.errors import UsageError
from harness.api import load
from harness.campaign.play import playable
from harness.claims.grid import chosen, claims_grid
from harness.claims.session import settle_all
from harness.claims.table import CLAIMS
from harness.cli.main import run
from harness.run import prepare
from tests.harness import runs
from tests.harness.second_tries import first_that_counts, was_disturbed

WORDS = ("claims", "--only", "crash-no-persistence", "--repeats", "1", "--cluster", "process")


def is_told(place: Path, ended: tuple[int, str, str]) -> bool:
    """Whether the answer is the claim's, and not the machine's."""
    played = [path for path in (place / "results" / "runs").iterdir() if not path.is_symlink()]
    return ended[0] == 0 or not any(was_disturbed(load(path)) for path in played)


def test_a_claim_is_settled_by_its_experiments_and_a_second_call_makes_no_run(tmp_path: Path) -> None:
    place, (code, out, err) = first_that_counts(
        tmp_path, lambda place: (place, runs.fencepost(place, *WORDS)), lambda played: is_told(*played)
    )
    assert code == 0, out + err
    assert "1 claim: 1 confirmed." in out
    report = place / "results" / "claims" / "crash-no-persistence-x1-process"
    (claim,) = json.loads((report / "claims.json").read_bytes())["claims"]
    assert (claim["name"], claim["answer"]) == ("crash-no-persistence", "confirmed")
    for trial in claim["trials"]:
        assert (trial["held"], trial["failed"], trial["missing"]) == (1, 0, 0)
        (folder,) = trial["folders"]
        assert (place / "results" / "runs" / folder / "experiment.json").exists()
        assert runs.processes_of(place / "results" / "runs" / folder) == []
    assert (report / "index.html").read_text().count("data-timeline=") == 1
    lines = (report / "runs.jsonl").read_bytes()

    code, out, err = runs.fencepost(place, *WORDS)
    assert code == 0, out + err
    assert "found 2 of them finished" in out
    assert (report / "runs.jsonl").read_bytes() == lines


def test_a_record_grows_by_the_claims_that_it_lacks_and_its_page_keeps_the_others(tmp_path: Path) -> None:
    def told(place: Path, *only: str) -> tuple[Path, tuple[int, str, str]]:
        names = [word for name in only for word in ("--only", name)]
        asked = (*names, "--repeats", "1", "--cluster", "process", "--report", "record")
        return place, runs.fencepost(place, "claims", *asked)

    place, (code, out, err) = first_that_counts(
        tmp_path, lambda place: told(place, "clean-shutdown-aof"), lambda played: is_told(*played)
    )
    assert code == 0, out + err
    lines = (place / "record" / "runs.jsonl").read_bytes()
    _, (code, out, err) = told(place, "crash-no-persistence")
    assert "found 1 of them finished" in out, out + err
    assert (place / "record" / "runs.jsonl").read_bytes().startswith(lines)
    claims = json.loads((place / "record" / "claims.json").read_bytes())["claims"]
    assert [claim["name"] for claim in claims] == [
        *("crash-no-persistence", "clean-shutdown-aof", "everysec-process-crash"),
    ]


def test_the_list_shows_every_claim_with_its_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", "--list"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for claim in CLAIMS:
        assert f"{claim.name}: {claim.gist}" in out
        assert all(trial.script in out for trial in claim.trials)


def test_an_unknown_claim_is_one_clear_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", "--only", "clock-stop"]) == 254
    _, err = capfd.readouterr()
    assert "did you mean clock-step?" in err
    assert len(err.splitlines()) == 1


def test_claims_that_this_machine_cannot_test_are_left_out_and_all_of_them_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(kind: str) -> None:
        raise UsageError(f"no {kind} disk here")

    monkeypatch.setattr(prepare, "check_disks", refuse)
    claims = chosen(["always-power-loss", "crash-no-persistence"])
    _, cannot = playable(claims_grid(claims, 1, "process"))
    assert sorted(cannot) == [
        "power-cut-with-aof-always",
        "power-cut-with-aof-everysec",
        "power-cuts-with-aof-always",
        "power-cuts-with-aof-everysec",
    ]
    settled = settle_all(claims, 1, [], cannot)
    assert [each.why for each in settled][1] == (
        "This machine cannot play power-cut-with-aof-always: no ext4 disk here."
    )
    monkeypatch.chdir(tmp_path)
    assert run(["claims", "--only", "always-power-loss", "--cluster", "process"]) == 254
    assert "no ext4 disk here" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
