"""What `--json FILE` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic import Made, make_run

from cluster.engine_address import Engine, NoEngineError
from fencepost.__main__ import main
from fencepost.errors import BrokenEnvironmentError, FencepostError, InternalError, LackingMachineError, UsageError
from harness.config import RunConfig
from harness.explain.explanation import Explained, Explanation
from harness.report.result import result_of
from harness.report.result_file import errors_written, write_result
from harness.session import _write_unjudged
from harness.store.run_folder import RunFolder
from tests.golden import Golden

FOLDER = Path("runs/20260101T000000Z-fenced-counter-mine-partition-7")


def written(made: Made, path: Path, *explained: Explained) -> dict[str, Any]:
    write_result(path, result_of(made.recorded.config, made.verdict, FOLDER, "fencepost test --seed 7", explained))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_violation_tells_its_story_and_what_broke_it_comes_first(tmp_path: Path, golden: Golden) -> None:
    made = make_run(lock_overlaps=3, client_overlaps=2, seed=7)
    (finding,) = [each for each in made.verdict.findings if each.blame == "lock"]
    why = Explained(finding, (Explanation(None, "c3 and c7 met.", "n1 forgot."),))  # type: ignore[arg-type]
    result = written(made, tmp_path / "result.json", why)
    assert (result["schema"], result["verdict"], result["require"], result["seed"]) == (2, "violation", "lock", 7)
    golden(result["story"])
    assert result["story"].endswith("\nc3 and c7 met. n1 forgot.")
    first, *others = result["findings"]
    assert (first["kind"], first["blame"], first["breaks"], first["count"]) == ("overlap", "lock", True, 3)
    assert first["why"] == "c3 and c7 met. n1 forgot."
    assert others
    assert [each for each in others if each["breaks"] or each["why"]] == []
    assert result["folder"] == str(Path.cwd() / FOLDER)
    assert result["page"] == f"{result['folder']}/report.html"
    assert result["replay"] == "fencepost test --seed 7"


def test_a_valid_run_has_no_story_of_what_it_does_not_break(tmp_path: Path) -> None:
    result = written(make_run(client_overlaps=2), tmp_path / "result.json")
    assert result["verdict"] == "valid"
    assert "\n" not in result["story"]
    assert [each["breaks"] for each in result["findings"]] == [False] * len(result["findings"]) != []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UsageError("no"), "usage"),
        (LackingMachineError("no"), "lacking"),
        (NoEngineError(Engine(), FileNotFoundError("no")), "lacking"),
        (BrokenEnvironmentError("no"), "environment"),
        (InternalError("no"), "internal"),
    ],
)
def test_an_error_is_written_with_its_kind_and_still_raised(error: FencepostError, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("of another call")
    with pytest.raises(type(error)), errors_written(path):
        raise error
    assert json.loads(path.read_text()) == {"schema": 2, "verdict": None, "error": {"kind": kind, "text": str(error)}}


def test_what_another_call_wrote_is_gone_before_anything_happens(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("of another call")
    with errors_written(path):
        assert not path.exists()


@pytest.mark.parametrize("name", ["", "missing/result.json"])
def test_a_file_that_cannot_be_written_is_told_before_the_run(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", "--json", str(tmp_path / name), "--lock", "nobody"]) == 254
    assert capsys.readouterr().err.startswith(f"fencepost: --json {tmp_path / name}: ")


def test_bad_arguments_of_a_run_are_in_the_file(tmp_path: Path) -> None:
    assert main(["test", "--json", str(tmp_path / "result.json"), "--lock", "nobody"]) == 254
    assert json.loads((tmp_path / "result.json").read_text())["error"]["kind"] == "usage"


def test_a_run_that_was_stopped_before_its_load_began_is_unknown(tmp_path: Path, golden: Golden) -> None:
    folder = RunFolder.create(tmp_path / "runs", RunConfig(seed=7))
    _write_unjudged(tmp_path / "result.json", RunConfig(seed=7), folder)
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["verdict"], result["seed"], result["folder"]) == ("unknown", 7, str(folder.path))
    golden(result["story"])
