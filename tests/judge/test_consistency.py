"""The files of a run vouch for each other, also where a manifest was written anew after they had been edited, or where
there is none: each way to disagree is named, with the file."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fencepost.errors import UsageError
from harness.checkers.judge import judge_folder
from harness.store.manifest import write_manifest
from harness.store.run_folder import RunFolder
from tests.golden import Golden
from tests.judge.tampering import an_extreme_number
from tests.judge.test_tampering import VALID, VIOLATION
from tests.peers.recorded import unpack, with_manifest

Line = dict[str, Any]
Edit = Callable[[list[Line]], list[Line]]
CLIENT, FINISHED = "clients/c1.1.jsonl", "clients/c3.1.jsonl"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(params=["broke off", "sealed anew"])
def folder(recorded: Path, tmp_path: Path, request: pytest.FixtureRequest) -> RunFolder:
    """A run that broke off after its last read, so that it has everything but a manifest; and one whose manifest is
    written anew before it is judged."""
    folder = with_manifest(recorded / VALID, tmp_path / "run")
    if request.param == "broke off":
        (folder.path / "manifest.json").unlink()
        folder.write_failure("the cluster could not be taken down")
    return folder


@pytest.fixture
def whole(recorded: Path, tmp_path: Path) -> RunFolder:
    return with_manifest(recorded / VALID, tmp_path / "run")


def edit(folder: RunFolder, name: str, how: Edit) -> None:
    log = folder.path / name
    lines = how([json.loads(line) for line in log.read_text().splitlines()])
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def damage(folder: RunFolder) -> str:
    if (folder.path / "manifest.json").exists():
        write_manifest(folder)
    with pytest.raises(UsageError) as raised:
        judge_folder(RunFolder.open(folder.path))
    return str(raised.value).removeprefix(f"{folder.path}/")


def test_files_that_agree_are_judged(folder: RunFolder) -> None:
    _, verdict = judge_folder(folder)
    assert verdict.verdict == ("valid" if (folder.path / "manifest.json").exists() else "unknown")


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


def ended_twice(lines: list[Line]) -> list[Line]:
    return [*lines, lines[0]]


def of_a_life_without_a_log(lines: list[Line]) -> list[Line]:
    return [*lines, lines[0] | {"life": 77}]


def without_an_end(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["client"] != "c1"]


def healed_before_it_began(lines: list[Line]) -> list[Line]:
    return [lines[0] | {"done_ns": lines[0]["began_ns"] - 1}, *lines[1:]]


def with_more_operations(lines: list[Line]) -> list[Line]:
    return [line | {"ops": 100_000} if line["client"] == "c1" else line for line in lines]


def healed_next_year(lines: list[Line]) -> list[Line]:
    return [lines[0] | {"done_ns": lines[0]["done_ns"] + 10**16}, *lines[1:]]


@pytest.mark.parametrize(
    ("name", "how", "words"),
    [
        ("nemesis.jsonl", healed_next_year, "that is far from the run"),
        ("resource.jsonl", of_a_section_that_nobody_entered, "section 99999, but clients/"),
        ("resource.jsonl", of_another_key, "has no such section of elsewhere"),
        ("resource.jsonl", with_one_write_less, "do not count 1, 2, 3, …"),
        (CLIENT, completed_before_it_began, "an operation completes before it is invoked"),
        (CLIENT, earlier_than_the_run, "an operation is earlier than the run"),
        (CLIENT, later_than_the_run, "an operation is later than the run"),
        (FINISHED, in_another_order, "it begins before what is written above it is over"),
        (FINISHED, without_the_last_release, "has no release, but the client finished"),
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


def test_a_log_with_fewer_operations_than_its_client_counted_is_damage(folder: RunFolder) -> None:
    edit(folder, "client-ends.jsonl", with_more_operations)
    assert "had recorded 100000 or more" in damage(folder)


def with_an_extension_for_the_first_release(lines: list[Line]) -> list[Line]:
    first = next(number for number, line in enumerate(lines) if line["f"] == "release")
    return [*lines[:first], lines[first] | {"f": "extend", "outcome": "fail"}, *lines[first + 1 :]]


@pytest.mark.parametrize("how", [with_an_extension_for_the_first_release, without_the_last_release])
@pytest.mark.parametrize("forget", [0, 0.5])
def test_only_a_client_that_forgets_goes_on_without_a_release(whole: RunFolder, how: Edit, forget: float) -> None:
    edit(whole, FINISHED, how)
    config = whole.path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"forget": forget}))
    if forget and how is with_an_extension_for_the_first_release:
        write_manifest(whole)
        assert judge_folder(RunFolder.open(whole.path))[1].verdict == "valid"
    else:
        assert "has no release, but the client finished" in damage(whole)


@pytest.mark.parametrize("name", ["environment.json", "client-ends.jsonl", "nemesis.jsonl", "resource.jsonl"])
def test_a_run_that_ended_as_planned_left_each_of_its_records(whole: RunFolder, name: str) -> None:
    (whole.path / name).unlink()
    assert damage(whole).startswith(f"{name} is missing although ")


def test_a_run_whose_nodes_were_watched_left_what_they_did(whole: RunFolder) -> None:
    whole.write_environment({"cluster": {"key_events": True}})
    (whole.path / "nodes.jsonl").unlink()
    assert damage(whole).startswith("nodes.jsonl is missing")


def test_a_client_of_which_no_life_is_left_is_damage(whole: RunFolder, golden: Golden) -> None:
    edit(whole, "client-ends.jsonl", without_an_end)
    for name in ("clients", "gaps"):
        for log in (whole.path / name).glob("c1.*"):
            log.unlink()
    edit(whole, "resource.jsonl", lambda lines: [])
    golden(damage(whole))


def test_a_client_that_was_killed_by_no_fault_is_damage(whole: RunFolder) -> None:
    edit(whole, "nemesis.jsonl", lambda lines: [line | {"killed_clients": []} for line in lines])
    assert re.match(r"nemesis\.jsonl .* killed c\d", damage(whole))


@pytest.mark.parametrize("seed", range(150))
def test_an_extreme_number_is_refused_or_judged_and_ends_no_checker(recorded: Path, tmp_path: Path, seed: int) -> None:
    """Also where a manifest vouches for it."""
    folder = with_manifest(recorded / (VALID if seed % 2 else VIOLATION), tmp_path / "run")
    file = an_extreme_number(folder.path, Random(seed))
    write_manifest(folder)
    with suppress(UsageError):
        judge_folder(folder)
    assert file.is_file()


@pytest.mark.parametrize("extreme", [2**63 - 1, -(2**63), 2**63, 10**40])
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("resource.jsonl", "value"),
        ("resource.jsonl", "index"),
        (FINISHED, "value"),
        (FINISHED, "section"),
        (FINISHED, "complete_ns"),
        (FINISHED, "validity_ms"),
        ("client-ends.jsonl", "at_ns"),
        ("nemesis.jsonl", "done_ns"),
        ("nodes.jsonl", "at_ns"),
    ],
)
def test_a_number_that_no_run_can_record_is_refused_with_file_and_line(
    whole: RunFolder, name: str, field: str, extreme: int
) -> None:
    lines = (whole.path / name).read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if f'"{field}":' in line)
    lines[at] = json.dumps(json.loads(lines[at]) | {field: extreme})
    (whole.path / name).write_text("\n".join(lines) + "\n")
    assert damage(whole).startswith(f"{name} line {at + 1} ")


def test_the_last_read_is_refused_with_its_name_if_no_counter_can_be_so_large(whole: RunFolder) -> None:
    whole.write_final({"k1": 2**63 - 1})
    assert re.match(r"final\.json .* Expected `int` <=", damage(whole))


def test_a_log_of_a_client_that_the_run_did_not_have_is_damage(folder: RunFolder, golden: Golden) -> None:
    (folder.path / CLIENT).rename(folder.path / "clients" / "c99.1.jsonl")
    golden(damage(folder))


def test_a_client_that_does_something_after_its_end_is_damage(folder: RunFolder) -> None:
    def earlier(lines: list[Line]) -> list[Line]:
        return [line | {"at_ns": line["at_ns"] - 10**9} if line["client"] == "c3" else line for line in lines]

    edit(folder, "client-ends.jsonl", earlier)
    assert damage(folder).startswith(f"{FINISHED} is damaged: an operation is later ")


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
