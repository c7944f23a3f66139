"""A run that was killed has no manifest. What it had recorded until then is sealed, all but the last moment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fencepost.errors import UsageError
from harness.checkers.judge import judge_folder
from harness.report.run_description import record
from harness.run.sealing import sealing
from harness.store.manifest import SEALED, write_manifest
from harness.store.run_folder import RunFolder
from harness.store.seal import Seal
from tests.golden import Golden
from tests.judge.tampering import KINDS, a_line_without_an_end, tamper
from tests.peers.comparison import DAMAGED, by_the_plain_judge
from tests.peers.recorded import unpack, with_manifest

VALID = "redlock-crash-targets-clients-interval-1s-20"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def killed(recorded: Path, tmp_path: Path) -> RunFolder:
    """A run of a correct lock whose harness was killed."""
    folder = with_manifest(recorded / VALID, tmp_path / "run")
    for name in ("manifest.json", "final.json"):
        (folder.path / name).unlink()
    timeline = json.loads((folder.path / "timeline.json").read_text())
    (folder.path / "timeline.json").write_text(json.dumps({"start_ns": timeline["start_ns"]}))
    return folder


def make_two_meet(folder: RunFolder) -> Path:
    """Change one digit, so that a client got the lock ten milliseconds earlier than it did."""
    log = folder.client_log("c7", 1)
    text = log.read_text()
    assert text.count("565463410696") == 1
    log.write_text(text.replace("565463410696", "565453410696"))
    return log


def test_a_changed_digit_does_not_convict_a_correct_lock(killed: RunFolder) -> None:
    Seal(killed).renew()
    assert judge_folder(killed)[1].verdict == "unknown"
    log = make_two_meet(killed)
    with pytest.raises(UsageError, match=rf"{log.name} does not begin with .* the record is damaged"):
        judge_folder(killed)
    assert by_the_plain_judge(killed.path) == DAMAGED


def test_without_a_seal_a_changed_digit_is_judged_and_said_to_be_possible(killed: RunFolder, golden: Golden) -> None:
    """As in a run that an older fencepost was making."""
    make_two_meet(killed)
    run, verdict = judge_folder(killed)
    assert verdict.verdict == "violation"
    assert any("no manifest.json" in reason for reason in verdict.unknown)
    golden("\n".join(record(run)))


@pytest.mark.parametrize("seed", [number for number, kind in enumerate(KINDS) if kind is not a_line_without_an_end])
def test_damage_to_what_was_sealed_is_called_damage_and_the_file_is_named(killed: RunFolder, seed: int) -> None:
    """All but a line without an end: a writer that is killed leaves one."""
    Seal(killed).renew()
    how, damaged = tamper(killed.path, seed)
    with pytest.raises(UsageError) as raised:
        judge_folder(killed)
    assert damaged.name in str(raised.value) or how == "swap two logs", (how, str(raised.value))


def test_what_came_after_the_seal_is_judged(killed: RunFolder, golden: Golden) -> None:
    log = killed.client_log("c7", 1)
    text = log.read_text()
    log.write_text("".join(text.splitlines(keepends=True)[:10]) + '{"f":"acqu')
    Seal(killed).renew()
    log.write_text(text)
    run, verdict = judge_folder(killed)
    assert verdict.verdict == "unknown"
    golden("\n".join(record(run)))


def test_a_seal_that_was_renewed_is_that_of_all_that_there_is(killed: RunFolder) -> None:
    log, seal = killed.client_log("c7", 1), Seal(killed)
    text = log.read_text()
    for upto in (20, 900, 5_000, len(text)):
        log.write_text(text[:upto])
        seal.renew()
    renewed = json.loads((killed.path / SEALED).read_text())
    Seal(killed).renew()
    assert renewed == json.loads((killed.path / SEALED).read_text())


def test_a_line_that_is_taken_back_because_the_disk_is_full_is_not_sealed(killed: RunFolder) -> None:
    log = killed.path / "resource.jsonl"
    text = log.read_bytes()
    log.write_bytes(text + text[:40])
    Seal(killed).renew()
    log.write_bytes(text)
    assert judge_folder(killed)[1].verdict == "unknown"


def test_the_last_seal_holds_all_that_was_recorded(killed: RunFolder) -> None:
    log = killed.path / "resource.jsonl"
    text = log.read_bytes()
    with sealing(killed):
        log.write_bytes(text + b"\n")
    log.write_bytes(text)
    with pytest.raises(UsageError, match=r"resource\.jsonl does not begin with"):
        judge_folder(killed)


def test_the_manifest_takes_the_place_of_the_seal(killed: RunFolder) -> None:
    Seal(killed).renew()
    write_manifest(killed)
    assert not (killed.path / SEALED).exists()
    assert SEALED not in (killed.path / "manifest.json").read_text()
