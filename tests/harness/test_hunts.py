"""The hunt on real servers: it finds what random times would take hours for, and only where there is something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fencepost
from nemesis.base import Topology
from nemesis.schedule import load_schedule
from tests.harness import runs
from tests.harness.second_tries import first_that_counts, was_struck

ENOUGH = ["--cluster", "process", "--lock", "redlock", "--clients", "4", "--ttl", "1s", "--hold", "uniform:200ms-500ms"]


def hunt(folder: Path, *arguments: str) -> tuple[int, fencepost.Run]:
    folder.mkdir(parents=True, exist_ok=True)
    code, out, err = runs.fencepost(folder, "test", *ENOUGH, "--seed", "3", "--recovery", "0", *arguments)
    assert code in (0, 1), out + err
    assert "at stake" in out
    return code, fencepost.load(runs.only_run(folder))


def hunt_until_struck(folder: Path, *arguments: str) -> tuple[int, fencepost.Run]:
    """Again, at most three times, if nodes came back too late for the lock to be put to the test."""
    return first_that_counts(
        folder, lambda place: hunt(place, *arguments), lambda played: played[0] == 1 or was_struck(played[1])
    )


def test_without_persistence_it_finds_the_violation_within_seconds_and_what_it_played_is_a_schedule(
    tmp_path: Path,
) -> None:
    code, run = hunt_until_struck(tmp_path / "hunt", "--nemesis", "hunt", "--duration", "4s")
    assert code == 1
    found = run.verdict.figures["opportunities"]
    assert 0 < found.violated_opportunities <= found.opportunities <= found.crashes
    assert found.first_violation_ms < 4_000

    saved = run.path / "played.json"
    played = load_schedule(saved, Topology(run.config.client_names, run.config.node_names, run.config.ttl_ms))
    struck = [fault for fault in played.faults if fault.nemesis == "crash"]
    assert len(struck) == found.crashes
    code, again = hunt(tmp_path / "again", "--schedule", str(saved), "--duration", "4s")
    assert (again.path / "schedule.json").read_bytes() == saved.read_bytes()
    events = [json.loads(line) for line in (again.path / "nemesis.jsonl").read_text().splitlines()]
    crashes = [event for event in events if event["nemesis"] == "crash" and event["event"] == "injected"]
    assert len(crashes) == len(struck)
    start_ns = json.loads((again.path / "timeline.json").read_text())["start_ns"]
    for event, planned in zip(crashes, struck, strict=True):
        assert planned.at_ms <= (event["began_ns"] - start_ns) / 1e6 < planned.at_ms + 500


@pytest.mark.timeout(300)
@pytest.mark.needs("ext4")
def test_with_everysec_a_hunt_by_power_cuts_finds_it_too(tmp_path: Path) -> None:
    given = ["--nemesis", "hunt:how=power", "--persistence", "aof-everysec", "--duration", "12s"]
    code, run = hunt_until_struck(tmp_path, *given, "--clients", "8", "--keys", "3")
    assert code == 1
    assert run.verdict.figures["opportunities"].violated_opportunities > 0


def test_with_every_write_synced_there_is_nothing_to_find(tmp_path: Path) -> None:
    opportunities = 0
    for number in range(3):  # a busy machine may not get so far in one run
        given = ["--nemesis", "hunt", "--persistence", "aof-always", "--duration", "4s"]
        code, run = hunt(tmp_path / str(number), *given)
        assert code == 0
        found = run.verdict.figures["opportunities"]
        assert found.violations == 0
        opportunities += found.opportunities
        if opportunities > 2:
            break
    assert opportunities > 2
