from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import UsageError
from harness.checkers.judge import judge_folder
from harness.store.manifest import SEALED, write_manifest
from harness.store.run_folder import RunFolder
from harness.store.seal import Seal
from tests.explain.test_terminal import folder_of, restarted
from tests.fuzz.command import fresh, fuzz, outcome
from tests.fuzz.hostile import BYTES, INSTEAD, TEXTS, damaged_json, put_instead

READERS = ["analyze", "explain", "export", "list", "replay", "shrink"]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder with everything that a run leaves."""
    folder = folder_of(restarted(), tmp_path_factory.mktemp("runs"))
    folder.write_environment({"lock": {"library": "redlock 1"}, "cluster": {"backend": "process"}, "cpus": 2})
    folder.write_schedule([])
    write_manifest(folder)
    judge_folder(folder)
    return folder.path


def copied(run: Path, place: Path, name: str = "") -> Path:
    runs = place / "results" / "runs"
    runs.mkdir(parents=True)
    copy = runs / (name or run.name)
    shutil.copytree(run, copy, symlinks=True)
    shutil.copytree(run, runs / "20200101T000000.000000Z-healthy", symlinks=True)
    return copy


def read_by_every_command(place: Path, run: Path, command: str) -> None:
    words = [command] if command == "list" else [command, str(run)]
    words += ["--to", "perfetto", "--output", str(place / "trace.json")] if command == "export" else []
    code, said, _ = outcome(*words, folder=place)
    if command == "list":
        assert code == 0
        assert "20200101T000000" in said, "one damaged folder hides no other"


def files_of(run: Path) -> list[str]:
    return sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())


@fuzz(12)
@given(data=st.data())
def test_a_file_that_is_something_else_is_one_line(judged: Path, tmp_path: Path, data: st.DataObject) -> None:
    place = fresh(tmp_path)
    run = copied(judged, place)
    path = run / data.draw(st.sampled_from(files_of(run)))
    put_instead(path, data.draw(st.sampled_from(sorted(INSTEAD))))
    read_by_every_command(place, run, data.draw(st.sampled_from(READERS)))
    with suppress(FileNotFoundError):
        shutil.rmtree(place)


@fuzz(30)
@given(data=st.data())
def test_a_document_with_anything_in_it_is_one_line_or_a_verdict(
    judged: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """Also where the manifest vouches for it: a hostile hand can write one."""
    place = fresh(tmp_path)
    run = copied(judged, place)
    names = [name for name in files_of(run) if name.endswith(".json") and name != "manifest.json"]
    name = data.draw(st.sampled_from([*names, "config.json", "verdict.json"]))
    document = json.loads((run / name).read_bytes())
    (run / name).write_bytes(data.draw(st.one_of(damaged_json(document), damaged_json(document), BYTES)))
    _vouch(run, data)
    read_by_every_command(place, run, data.draw(st.sampled_from(READERS)))
    shutil.rmtree(place)


@fuzz(30)
@given(data=st.data())
def test_a_log_with_anything_in_it_is_one_line_or_a_verdict(judged: Path, tmp_path: Path, data: st.DataObject) -> None:
    place = fresh(tmp_path)
    run = copied(judged, place)
    logs = [name for name in files_of(run) if name.endswith(".jsonl") and (run / name).stat().st_size]
    path = run / data.draw(st.sampled_from(logs))
    lines = path.read_bytes().splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[at] = data.draw(st.one_of(damaged_json(json.loads(lines[at])), BYTES))
    path.write_bytes(b"\n".join(lines) + data.draw(st.sampled_from([b"\n", b""])))
    _vouch(run, data)
    read_by_every_command(place, run, data.draw(st.sampled_from(READERS)))
    shutil.rmtree(place)


@fuzz(12)
@given(data=st.data())
def test_a_manifest_or_a_seal_with_anything_in_it_is_one_line(
    judged: Path, tmp_path: Path, data: st.DataObject
) -> None:
    place = fresh(tmp_path)
    run = copied(judged, place)
    name = data.draw(st.sampled_from(["manifest.json", SEALED]))
    if name == SEALED:
        (run / "manifest.json").unlink()
        (run / "final.json").unlink()
        Seal(RunFolder(run)).renew()
    document = json.loads((run / name).read_bytes())
    (run / name).write_bytes(data.draw(st.one_of(damaged_json(document), damaged_json(document), BYTES)))
    read_by_every_command(place, run, data.draw(st.sampled_from(READERS)))
    shutil.rmtree(place)


def _vouch(run: Path, data: st.DataObject) -> None:
    """The manifest is as damaged as the rest, or vouches for it, or is gone."""
    match data.draw(st.integers(0, 3)):
        case 0:
            return
        case 1:
            (run / "manifest.json").unlink()
        case _:
            with suppress(UsageError):
                write_manifest(RunFolder(run))


@fuzz(12)
@given(data=st.data())
def test_a_folder_of_any_name_is_listed_and_judged(judged: Path, tmp_path: Path, data: st.DataObject) -> None:
    place = fresh(tmp_path)
    name = data.draw(TEXTS.filter(lambda text: _is_name(text)))
    run = copied(judged, place, name)
    read_by_every_command(place, run, "list")
    read_by_every_command(place, run, "analyze")
    shutil.rmtree(place)


def _is_name(text: str) -> bool:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return False
    return 0 < len(encoded) < 256 and not set(text) & set("/\0") and text not in (".", "..")
