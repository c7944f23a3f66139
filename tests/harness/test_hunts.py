"""The hunt on real servers: it finds what random times would take hours for, and only where there is something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fencepost
from fencepost.history import FaultEvent
from nemesis.base import Topology
from nemesis.schedule import load_schedule
from tests.harness.failures import faults_of
from tests.harness.second_tries import caught, played, valid

ENOUGH = ["--cluster", "process", "--lock", "redlock", "--clients", "4", "--ttl", "1s", "--hold", "uniform:200ms-500ms"]


def hunt(*arguments: str) -> list[str]:
    return ["test", *ENOUGH, "--seed", "3", "--recovery", "0", *arguments]


def crashes_of(run: fencepost.Run) -> list[FaultEvent]:
    return [event for event in faults_of(run.path) if event.nemesis == "crash" and event.event == "injected"]


def test_without_persistence_it_finds_the_violation_within_seconds_and_what_it_played_is_a_schedule(
    tmp_path: Path,
) -> None:
    code, said, run = caught(tmp_path / "hunt", hunt("--nemesis", "hunt", "--duration", "4s"))
    assert code == 1, said
    assert "exposure" in said
    found = run.verdict.figures["opportunities"]
    assert 0 < found.violated_opportunities <= found.opportunities <= found.crashes
    assert 0 < found.first_violation_ms < 5_000, "what began before the end of the load"

    saved = run.path / "played.json"
    where = Topology(run.config.client_names, run.config.node_names, run.config.ttl_ms)
    struck = [fault for fault in load_schedule(saved, where).faults if fault.nemesis == "crash"]
    assert len(struck) == found.crashes

    def is_punctual(again: fencepost.Run) -> bool:
        start_ns, crashes = json.loads((again.path / "timeline.json").read_text())["start_ns"], crashes_of(again)
        at_ms = [(event.began_ns - start_ns) / 1e6 for event in crashes]
        return len(crashes) == len(struck) and all(
            planned.at_ms <= at < planned.at_ms + 500 for at, planned in zip(at_ms, struck, strict=True)
        )

    # The load lasts longer than that of the hunt: a late strike must not come after its end.
    again = played(
        tmp_path / "again",
        hunt("--schedule", str(saved), "--duration", "8s"),
        lambda each: is_punctual(each.run),
    ).run
    assert (again.path / "schedule.json").read_bytes() == saved.read_bytes()
    assert is_punctual(again), crashes_of(again)


@pytest.mark.timeout(300)
@pytest.mark.needs("ext4")
def test_with_everysec_a_hunt_by_power_cuts_finds_it_too(tmp_path: Path) -> None:
    given = ["--nemesis", "hunt:how=power", "--persistence", "aof-everysec", "--duration", "12s"]
    code, said, run = caught(tmp_path, hunt(*given, "--clients", "8", "--keys", "3"))
    assert code == 1, said
    assert run.verdict.figures["opportunities"].violated_opportunities > 0


def test_with_every_write_synced_there_is_nothing_to_find(tmp_path: Path) -> None:
    given = hunt("--nemesis", "hunt", "--persistence", "aof-always", "--duration", "4s")

    def opportunities(run: fencepost.Run) -> int:
        return int(run.verdict.figures["opportunities"].opportunities)

    # A busy machine may not get so far in one run.
    code, said, run = valid(tmp_path, given, lambda run: opportunities(run) > 2)
    assert code == 0, said
    assert run.verdict.figures["opportunities"].violations == 0
    assert opportunities(run) > 2
