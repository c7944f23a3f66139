"""A run folder that was damaged is called damaged, in one line that names the file, and gets no verdict."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fencepost.errors import BrokenEnvironmentError, UsageError
from harness.checkers.judge import judge_folder
from harness.report.judged import Judged
from harness.report.listing import list_runs
from harness.report.summary import render_summary
from harness.store import manifest
from harness.store.manifest import recording
from harness.store.run_folder import RunFolder
from tests.golden import Golden
from tests.judge.tampering import KINDS, tamper
from tests.peers.recorded import unpack, with_manifest

VALID = "redlock-crash-targets-clients-interval-1s-20"
VIOLATION = "control-quorum-of-two-partition-pause-16"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """A reader that waits for a pipe's writer waits forever."""

    def too_long(*_: object) -> None:
        raise TimeoutError("judging did not end")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", [VALID, VIOLATION])
def test_an_untouched_run_with_a_manifest_keeps_its_verdict(recorded: Path, tmp_path: Path, name: str) -> None:
    _, old = judge_folder(RunFolder.open(recorded / name))
    _, new = judge_folder(with_manifest(recorded / name, tmp_path / "run"))
    assert (new.verdict, new.findings, new.unknown) == (old.verdict, old.findings, old.unknown)
    assert new.verdict == ("valid" if name == VALID else "violation")


@pytest.mark.parametrize("seed", range(3 * len(KINDS)))
def test_damage_is_called_damage_and_the_file_is_named(recorded: Path, tmp_path: Path, seed: int) -> None:
    name = VALID if seed // len(KINDS) % 2 == 0 else VIOLATION
    folder = with_manifest(recorded / name, tmp_path / "run")
    how, damaged = tamper(folder.path, seed)
    with pytest.raises(UsageError) as raised:
        judge_folder(RunFolder.open(folder.path))
    text = str(raised.value)
    assert "\n" not in text, how
    assert damaged.name in text or how == "swap two logs", (how, text)
    assert not (folder.path / "verdict.json").exists()


@pytest.mark.parametrize("seed", range(0, 2 * len(KINDS), 2))
def test_damage_to_a_run_without_a_manifest_never_ends_in_a_traceback(
    recorded: Path, tmp_path: Path, seed: int
) -> None:
    """Older runs: their files vouch for each other as far as one must agree with another."""
    folder = tmp_path / "run"
    shutil.copytree(recorded / VALID, folder)
    tamper(folder, seed)
    with suppress(UsageError):
        judge_folder(RunFolder.open(folder))


@pytest.mark.parametrize("name", ["history.parquet", "verdict.json", "report.html", "sealed.json", "logs/c1.1.log"])
def test_what_the_manifest_does_not_list_decides_nothing(recorded: Path, tmp_path: Path, name: str) -> None:
    """Of a run of a broken lock, or garbage."""
    folder, other = (with_manifest(recorded / run, tmp_path / run) for run in (VALID, VIOLATION))
    before, _ = judge_folder(folder)[1], judge_folder(other)
    assert name not in manifest.recorded(folder.path)
    (folder.path / name).parent.mkdir(exist_ok=True)
    (folder.path / name).write_bytes((other.path / name).read_bytes() if (other.path / name).exists() else b"{}")
    assert judge_folder(RunFolder.open(folder.path))[1] == before


def test_a_run_that_had_ended_and_lost_its_manifest_is_damaged(recorded: Path, tmp_path: Path) -> None:
    folder = with_manifest(recorded / VALID, tmp_path / "run")
    (folder.path / "manifest.json").unlink()
    with pytest.raises(UsageError, match=r"manifest\.json is missing although the run had ended"):
        judge_folder(folder)


def broken_off(recorded: Path, tmp_path: Path, name: str) -> RunFolder:
    """As a killed harness leaves it: no manifest, no last read, no end of the run."""
    folder = with_manifest(recorded / name, tmp_path / "run")
    for left_out in ("manifest.json", "final.json"):
        (folder.path / left_out).unlink()
    timeline = json.loads((folder.path / "timeline.json").read_text())
    (folder.path / "timeline.json").write_text(json.dumps({"start_ns": timeline["start_ns"]}))
    return folder


def test_a_run_whose_harness_was_killed_is_unknown_at_best(recorded: Path, tmp_path: Path) -> None:
    _, verdict = judge_folder(broken_off(recorded, tmp_path, VALID))
    assert verdict.verdict == "unknown"
    assert any("no manifest.json" in reason for reason in verdict.unknown)


def test_a_run_whose_harness_was_killed_still_convicts(recorded: Path, tmp_path: Path) -> None:
    _, verdict = judge_folder(broken_off(recorded, tmp_path, VIOLATION))
    assert verdict.verdict == "violation"
    assert any("no manifest.json" in reason for reason in verdict.unknown)


def test_what_broke_is_recorded_and_said(recorded: Path, tmp_path: Path, golden: Golden) -> None:
    folder = broken_off(recorded, tmp_path, VALID)
    with pytest.raises(BrokenEnvironmentError), recording(folder):
        raise BrokenEnvironmentError("toxiproxy ended with exit status 9")
    assert not (folder.path / "manifest.json").exists()
    _, verdict = judge_folder(folder)
    assert verdict.verdict == "unknown"
    golden("\n".join(verdict.unknown))


def test_an_unexpected_error_is_recorded_with_its_name(tmp_path: Path, recorded: Path, golden: Golden) -> None:
    folder = broken_off(recorded, tmp_path, VALID)
    with pytest.raises(ZeroDivisionError), recording(folder):
        raise ZeroDivisionError("integer division or modulo by zero")
    golden(folder.read_failure())


def test_a_run_that_broke_off_after_its_last_read_is_no_more_valid(recorded: Path, tmp_path: Path) -> None:
    folder = with_manifest(recorded / VALID, tmp_path / "run")
    (folder.path / "manifest.json").unlink()
    folder.write_failure("the cluster could not be taken down")
    _, verdict = judge_folder(folder)
    assert (verdict.verdict, verdict.unknown) == (
        "unknown",
        ("run aborted: the cluster could not be taken down",),
    )


def listed(folder: RunFolder) -> str:
    (run,) = [run for run in list_runs(folder.path.parent) if run.path == folder.path]
    return run.verdict


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_the_list_does_not_show_the_verdict_of_a_run_that_was_damaged_since(
    recorded: Path, tmp_path: Path, seed: int
) -> None:
    folder = with_manifest(recorded / VALID, tmp_path / "run")
    judge_folder(folder)
    assert listed(folder) == "valid"
    how, _ = tamper(folder.path, seed)
    if (folder.path / "config.json").is_file():
        assert listed(folder) == "damaged", how


def test_the_list_does_not_show_the_verdict_of_an_older_run_that_changed_since(recorded: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(recorded / VALID, folder.path)
    judge_folder(folder)
    assert listed(folder) == "valid"
    log = next(iter(sorted(folder.clients.iterdir())))
    log.write_bytes(log.read_bytes()[:-200])
    assert listed(folder) == "changed"
    judge_folder(folder)
    log.unlink()
    assert listed(folder) == "changed"


def test_a_run_that_lost_its_manifest_is_listed_as_damaged(recorded: Path, tmp_path: Path) -> None:
    folder = with_manifest(recorded / VALID, tmp_path / "run")
    judge_folder(folder)
    (folder.path / "manifest.json").unlink()
    assert listed(folder) == "damaged"


def test_only_of_a_run_without_a_manifest_it_is_said_that_nothing_vouches_for_it(
    recorded: Path, tmp_path: Path, golden: Golden
) -> None:
    old, new = RunFolder.open(recorded / VALID), with_manifest(recorded / VALID, tmp_path / "whole")
    told = []
    for folder in (old, new, broken_off(recorded, tmp_path, VIOLATION)):
        run, verdict = judge_folder(folder)
        console = Console(file=StringIO(), width=200)
        console.print(render_summary(Judged(run, verdict, replay="again"), tmp_path))
        told += [line.strip() for line in console.file.getvalue().splitlines() if "may go unnoticed" in line]
    golden("\n".join(told))
