"""What a run asked of its disks is what its servers do, what the folder tells, and what a replay asks again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.base import RESOURCE
from cluster.persistence import POLICIES, Policy
from cluster.polling import becomes_true
from cluster.servers.redis import SERVER, persistence_directives
from fencepost import Run
from fencepost.errors import BrokenEnvironmentError
from fencepost.history import FaultEvent
from harness.config import RunConfig
from harness.options import replay_command
from harness.run.environment import check_persistence
from tests.cluster.disks import traces
from tests.cluster.reapers import reaper_of
from tests.harness import runs
from tests.harness.failures import faults_of
from tests.harness.second_tries import valid


@pytest.mark.parametrize("policy", POLICIES)
def test_a_server_that_keeps_what_it_was_asked_to_keep_passes(policy: Policy) -> None:
    check_persistence("n1", SERVER, policy, dict(persistence_directives(policy)))


@pytest.mark.parametrize(("who", "does"), [("n2", "aof-everysec"), ("n2", "none"), (RESOURCE, "aof-everysec")])
def test_a_server_that_keeps_its_data_otherwise_breaks_the_run(who: str, does: Policy) -> None:
    with pytest.raises(BrokenEnvironmentError, match=f"{who} was asked for persistence aof-always, but "):
        check_persistence(who, SERVER, "aof-always", dict(persistence_directives(does)))


@pytest.mark.needs("ext4")
@pytest.mark.parametrize("backend", ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))])
def test_a_run_under_power_cuts_tells_its_policy_and_leaves_no_disk(backend: str, tmp_path: Path) -> None:
    given = ["--persistence", "aof-everysec", "--nemesis", "power:interval=1s,targets=minority", "--restart-delay", "0"]
    # A machine that stands still keeps a node from being seen to go down, or to come back, in time.
    code, out, run = valid(
        tmp_path, runs.short_run(*given, cluster=backend), lambda run: all(event.holds for event in planned(run))
    )
    assert code == 0, out
    assert "persistence aof-everysec, each node on its own ext4 disk" in out
    folder = run.path
    assert traces(folder.parents[2]) == []
    environment = json.loads((folder / "environment.json").read_text())
    for name, config in environment["servers"].items():
        assert config["appendfsync"] == ("always" if name == RESOURCE else "everysec"), name
    assert environment["cluster"]["persistence"] == {"nodes": "aof-everysec", "resource": "aof-always"}
    assert environment["cluster"]["disks"]["fsync_ms"]["p50"] > 0
    assert "persistence aof-everysec" in (folder / "report.html").read_text()
    assert {event.what.partition(" n")[0] for event in planned(run)} == {"power cut"}
    assert all(event.holds for event in planned(run)), planned(run)


def planned(run: Run) -> list[FaultEvent]:
    """What is on record of faults that were asked for: a disk may have made the resource wait."""
    return [event for event in faults_of(run.path) if not event.unplanned]


@pytest.mark.needs("ext4")
def test_clean_removes_the_disks_of_a_harness_that_was_killed_with_its_reaper_while_it_came_up(tmp_path: Path) -> None:
    process = runs.start(tmp_path, *runs.short_run("--disks", "--nemesis", "none", "--duration", "60s"))
    # The first disks of the tree are the trial's, which come and go before there is a folder of the run.
    assert becomes_true(lambda: any(tmp_path.glob("results/runs/2*")) and bool(traces(tmp_path)), within_s=30)
    folder = runs.only_run(tmp_path)
    (state,) = (tmp_path / "tmp").glob(f"fencepost-*/{folder.name}")
    reaper = reaper_of(state)
    assert reaper is not None
    reaper.kill()
    process.kill()
    process.communicate()
    code, out, err = runs.fencepost(tmp_path, "clean")
    assert code == 0, out + err
    assert f"deleted the disk n1 of {folder.name}" in out
    assert traces(tmp_path) == []
    assert runs.state_left(tmp_path) == []


def test_a_replay_asks_for_the_same_disks_and_servers_again() -> None:
    config = RunConfig(
        seed=7, nemesis="power", persistence="aof-no", disks=True, disk_fs="xfs", server="valkey", resource_server="/r"
    )
    words = replay_command(config, Path("schedule.json"))
    assert "--disks" in words
    assert "--persistence aof-no" in words
    assert "--disk-fs xfs" in words
    assert "--server valkey" in words
    assert "--resource-server /r" in words
