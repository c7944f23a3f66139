"""Without a manifest the files of a run vouch for each other: each way to disagree is named, with the file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import UsageError
from harness.checkers.judge import judge_folder
from harness.store.run_folder import RunFolder
from tests.judge.test_tampering import VALID
from tests.peers.recorded import unpack, with_manifest

Line = dict[str, Any]
Edit = Callable[[list[Line]], list[Line]]
CLIENT, FINISHED = "clients/c1.1.jsonl", "clients/c3.1.jsonl"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> RunFolder:
    """A run that broke off after its last read, so that it has everything but a manifest."""
    folder = with_manifest(recorded / VALID, tmp_path / "run")
    (folder.path / "manifest.json").unlink()
    folder.write_failure("the cluster could not be taken down")
    return folder


def edit(folder: RunFolder, name: str, how: Edit) -> None:
    log = folder.path / name
    lines = how([json.loads(line) for line in log.read_text().splitlines()])
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def damage(folder: RunFolder) -> str:
    with pytest.raises(UsageError) as raised:
        judge_folder(RunFolder.open(folder.path))
    return str(raised.value).removeprefix(f"{folder.path}/")


def test_files_that_agree_are_judged(folder: RunFolder) -> None:
    _, verdict = judge_folder(folder)
    assert verdict.verdict == "unknown"


def of_a_section_that_nobody_entered(lines: list[Line]) -> list[Line]:
    return [lines[0] | {"section": 99_999}, *lines[1:]]


def of_another_key(lines: list[Line]) -> list[Line]:
    return [lines[0] | {"key": "elsewhere"}, *lines[1:]]


def with_one_write_less(lines: list[Line]) -> list[Line]:
    return lines[:3] + lines[4:]


def completed_before_it_began(lines: list[Line]) -> list[Line]:
    return [lines[0] | {"complete_ns": lines[0]["invoke_ns"] - 1}, *lines[1:]]


def earlier_than_the_run(lines: list[Line]) -> list[Line]:
    return [lines[0] | {"invoke_ns": 1}, *lines[1:]]


def later_than_the_run(lines: list[Line]) -> list[Line]:
    return [*lines[:-1], lines[-1] | {"complete_ns": lines[-1]["complete_ns"] + 10**15}]


def in_another_order(lines: list[Line]) -> list[Line]:
    steps = [number for number, line in enumerate(lines) if line["f"] == "release"]
    first, second = steps[:2]
    lines[first], lines[second] = lines[second], lines[first]
    return lines


def without_the_last_release(lines: list[Line]) -> list[Line]:
    last = max(number for number, line in enumerate(lines) if line["f"] == "release")
    return [*lines[:last], *lines[last + 1 :]]


def of_a_section_that_was_not_granted(lines: list[Line]) -> list[Line]:
    return [*lines, lines[-1] | {"section": 99_999}]


def ended_twice(lines: list[Line]) -> list[Line]:
    return [*lines, lines[0]]


def of_a_life_without_a_log(lines: list[Line]) -> list[Line]:
    return [*lines, lines[0] | {"life": 77}]


def without_an_end(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["client"] != "c1"]


def healed_before_it_began(lines: list[Line]) -> list[Line]:
    return [lines[0] | {"done_ns": lines[0]["began_ns"] - 1}, *lines[1:]]


@pytest.mark.parametrize(
    ("name", "how", "words"),
    [
        ("resource.jsonl", of_a_section_that_nobody_entered, "section 99999, but clients/"),
        ("resource.jsonl", of_another_key, "has no such section of elsewhere"),
        ("resource.jsonl", with_one_write_less, "do not count 1, 2, 3, …"),
        (CLIENT, completed_before_it_began, "an operation completes before it is invoked"),
        (CLIENT, earlier_than_the_run, "an operation is earlier than the run"),
        (CLIENT, later_than_the_run, "an operation is later than the run"),
        (FINISHED, in_another_order, "it begins before what is written above it is over"),
        (FINISHED, without_the_last_release, "has no release, but the client finished"),
        ("held/c3.1.jsonl", of_a_section_that_was_not_granted, "clients/c3.1.jsonl has no such section of k1"),
        ("client-ends.jsonl", ended_twice, "it says twice how"),
        ("client-ends.jsonl", of_a_life_without_a_log, "77.jsonl is not there"),
        ("client-ends.jsonl", without_an_end, "it does not say how c1, life 1 ended, whose log is there"),
        ("nemesis.jsonl", healed_before_it_began, "before that began"),
    ],
)
def test_files_that_disagree_are_damaged(folder: RunFolder, name: str, how: Edit, words: str) -> None:
    edit(folder, name, how)
    told = damage(folder)
    assert told.startswith(f"{name} is damaged: ")
    assert words in told
    assert "\n" not in told


@pytest.mark.parametrize("of", ["held", "answers"])
def test_values_and_replies_of_a_log_that_is_not_there_are_damage(folder: RunFolder, of: str) -> None:
    (folder.path / of).mkdir(exist_ok=True)
    (folder.path / of / "c1.77.jsonl").write_text("")
    assert damage(folder) == f"{of}/c1.77.jsonl is damaged: clients/c1.77.jsonl is not there"


def test_a_log_of_a_client_that_the_run_did_not_have_is_damage(folder: RunFolder) -> None:
    (folder.path / CLIENT).rename(folder.path / "clients" / "c99.1.jsonl")
    assert damage(folder) == "clients/c99.1.jsonl is damaged: the run had no such client"


def test_a_client_that_does_something_after_its_end_is_damage(folder: RunFolder) -> None:
    def earlier(lines: list[Line]) -> list[Line]:
        return [line | {"at_ns": line["at_ns"] - 10**9} if line["client"] == "c3" else line for line in lines]

    edit(folder, "client-ends.jsonl", earlier)
    assert damage(folder) == f"{FINISHED} is damaged: an operation is later than the end of its client"


def test_a_log_that_was_copied_as_another_life_is_damage(folder: RunFolder) -> None:
    shutil.copy(folder.path / CLIENT, folder.path / "clients" / "c1.7.jsonl")
    (folder.path / "timeline.json").write_text(json.dumps({"start_ns": 0}))  # killed: not every end is on record
    assert damage(folder).startswith("clients/c1.7.jsonl is damaged: it begins before life ")


def test_a_log_of_another_client_is_damage_where_no_data_tells(folder: RunFolder) -> None:
    """Two logs were swapped: when the clients ended, and what their locks wrote on the nodes, tell them apart."""
    (folder.path / "resource.jsonl").write_text("")
    lives = [folder.path / "clients" / f"{client}.1.jsonl" for client in ("c3", "c6")]
    texts = [log.read_text() for log in lives]
    for log, text in zip(lives, reversed(texts), strict=True):
        log.write_text(text)
    assert " is damaged: " in damage(folder)
