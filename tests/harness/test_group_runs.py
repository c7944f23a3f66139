"""Whole runs of a lock on a group of members: a verdict, a control that is caught, and nothing that is left behind."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet
import pytest

from cluster.polling import becomes_true
from tests.harness import runs
from tests.needs import find_old_etcd
from tests.processes import every_process
from workloads.installation import installed_folder
from workloads.languages.base import half
from workloads.manifest import Manifest
from workloads.registry import foreign_locks

pytestmark = pytest.mark.needs("members")

TOYS = Path(__file__).parents[1] / "toys"
NAMES = ("etcd", "zookeeper", "hazelcast-fenced")
on_each = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(f"lock:{name}")) for name in NAMES]
)
PROGRAM = {"etcd": "etcd", "zookeeper": "java", "hazelcast-fenced": "java"}
ENDING = ("zookeeper", "curator", "hazelcast-fenced")
"""Locks that say no when their session has ended, under the load of the control."""
LASTS = {"hazelcast-fenced": "15s"}
"""It has 6 s to settle after a fault, and nothing is said of that time."""
CONTROLS = {
    "etcd": ("endless_etcd.py", "none", ("--hold", "3s", "--duration", "8s")),
    "zookeeper": (
        "trusting_zookeeper.py",
        "pause:targets=inside,duration=3s,interval=4s",
        ("--hold", "1s", "--duration", "9s"),
    ),
    "curator": (
        "TrustingCurator.java",
        "pause:targets=inside,duration=3s,interval=4s",
        ("--hold", "1s", "--duration", "9s"),
    ),
    "hazelcast-fenced": (
        "TrustingHazelcast.java",
        "pause:targets=inside,duration=6s,interval=7s",
        ("--hold", "1s", "--duration", "12s"),
    ),
}
"""A client that ignores that its session has ended, and a load under which one ends."""


def manifest(name: str) -> Manifest:
    return next(lock for lock in foreign_locks() if lock.name == name)


def judged(folder: Path, *arguments: str, cluster: str = "process") -> tuple[int, dict[str, Any], str]:
    code, out, err = runs.fencepost(folder, "test", *arguments, "--cluster", cluster)
    return code, json.loads((runs.only_run(folder) / "verdict.json").read_text()), out + err


@on_each
def test_a_correct_lock_survives_the_loss_of_its_leader_and_the_record_says_how_long_that_took(
    tmp_path: Path, name: str
) -> None:
    load = ("--clients", "3", "--duration", LASTS.get(name, "10s"), "--seed", "1", "--least-sections", "1")
    faults = ("--nemesis", "leader:how=cut,duration=4s,interval=15s")
    code, verdict, said = judged(tmp_path, "--lock", name, *faults, *load)
    assert (code, verdict["findings"]) == (0, []), said
    assert "no request reached" not in said
    events = [json.loads(line) for line in (runs.only_run(tmp_path) / "nemesis.jsonl").read_text().splitlines()]
    cut = next(event for event in events if event["nemesis"] == "members" and event["event"] == "injected")
    assert cut["holds"], cut
    assert all(cut["led_by"] in pair for pair in cut["cut_members"])
    assert cut["elected"] not in (None, cut["led_by"]), cut
    assert cut["elected_after_ms"] > 0
    played = json.loads((runs.only_run(tmp_path) / "played.json").read_text())
    assert {fault["nemesis"] for fault in played["faults"]} == {"members"}


@pytest.mark.needs("lock:redis-sentinel")
def test_sentinels_replace_a_primary_that_is_killed_and_clients_reach_both_through_their_links(tmp_path: Path) -> None:
    load = ("--clients", "3", "--duration", "7s", "--seed", "1", "--least-sections", "1")
    faults = ("--nemesis", "leader:how=kill,duration=5s,interval=7s")
    code, verdict, said = judged(tmp_path, "--lock", "redis-sentinel", *faults, *load)
    assert code in (0, 1), said
    assert verdict["verdict"] in ("valid", "violation")
    events = [json.loads(line) for line in (runs.only_run(tmp_path) / "nemesis.jsonl").read_text().splitlines()]
    (kill,) = (event for event in events if event["nemesis"] == "crash" and event["event"] == "injected")
    assert kill["nodes"] == [kill["led_by"]]
    assert kill["elected"] not in (None, kill["led_by"]), kill
    assert kill["elected_after_ms"] > 0
    requests = pyarrow.parquet.read_table(runs.only_run(tmp_path) / "requests.parquet").to_pandas()
    sets = requests[(requests["command"] == "SET") & requests["client"].isin(["c1", "c2", "c3"])]
    assert {kill["led_by"], kill["elected"]} <= set(sets["node"])


@pytest.mark.needs("engine")
@pytest.mark.needs("root")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.needs(f"lock:{name}"))
        for name in ("etcd", "zookeeper", "hazelcast-fenced", "redis-sentinel", "redis-cluster")
    ],
)
def test_in_containers_too_a_leader_that_is_killed_is_replaced(tmp_path: Path, name: str) -> None:
    load = ("--clients", "3", "--duration", LASTS.get(name, "8s"), "--seed", "1", "--least-sections", "1")
    faults = ("--nemesis", "leader:how=kill,duration=5s,interval=15s")
    code, verdict, said = judged(tmp_path, "--lock", name, *faults, *load, cluster="docker")
    assert code in ((0, 1) if name.startswith("redis") else (0,)), said
    assert verdict["verdict"] in ("valid", "violation")
    events = [json.loads(line) for line in (runs.only_run(tmp_path) / "nemesis.jsonl").read_text().splitlines()]
    (kill,) = (event for event in events if event["nemesis"] == "crash" and event["event"] == "injected")
    assert kill["nodes"] == [kill["led_by"]]
    assert kill["elected"] not in (None, kill["led_by"]), kill


@pytest.mark.needs("lock:etcd")
def test_a_replay_cuts_the_members_that_were_cut_whoever_leads_by_then(tmp_path: Path) -> None:
    load = ("--clients", "2", "--duration", "6s", "--seed", "1", "--least-sections", "1")
    judged(tmp_path, "--lock", "etcd", "--nemesis", "leader:how=cut,duration=2s", *load)
    first = runs.only_run(tmp_path)
    code, out, err = runs.fencepost(tmp_path, "replay", str(first), "--times", "1")
    assert code == 0, out + err
    (second,) = {path for path in first.parent.iterdir() if path.is_dir() and not path.is_symlink()} - {first}
    assert cuts_of(first) == cuts_of(second) != []


def cuts_of(folder: Path) -> list[set[tuple[str, str]]]:
    """Which members did not hear which others, fault by fault."""
    events = [json.loads(line) for line in (folder / "nemesis.jsonl").read_text().splitlines()]
    injected = (event for event in events if event["event"] == "injected" and event.get("cut_members"))
    return [{(sender, receiver) for sender, receiver in event["cut_members"]} for event in injected]


@pytest.mark.needs("java")
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.needs(f"lock:{name}")) for name in CONTROLS])
def test_a_client_that_ignores_that_its_session_has_ended_is_caught(tmp_path: Path, name: str) -> None:
    code, verdict, said = judged(tmp_path, "--lock-command", command(name, CONTROLS[name][0]), *under(name))
    assert code == 1, said
    assert ("overlap", "lock") in {(finding["kind"], finding["blame"]) for finding in verdict["findings"]}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.needs(f"lock:{name}"))
        for name in ("zookeeper", "curator", "hazelcast-fenced")
    ],
)
def test_a_lock_that_says_no_when_its_session_has_ended_is_not_blamed_for_the_same(tmp_path: Path, name: str) -> None:
    ours = command(name, manifest(name).adapter_path)
    code, verdict, said = judged(tmp_path, "--lock-command", ours, *under(name))
    assert code == 0, said
    assert {finding["kind"] for finding in verdict["findings"] if finding["blame"] == "lock"} == set()


OLD = pytest.param("3.4", marks=pytest.mark.needs("old-etcd"))


@pytest.mark.needs("lock:etcd")
@pytest.mark.parametrize("version", [OLD, "3.7"])
def test_an_etcd_that_grants_a_lock_on_a_lease_that_has_ended_is_caught(tmp_path: Path, version: str) -> None:
    """A client that waits longer than its lease lasts is let in by etcd 3.4, and refused by 3.7."""
    etcd = f"etcd={find_old_etcd()}" if version == "3.4" else "etcd"
    load = ("--clients", "3", "--duration", "9s", "--hold", "1500ms", "--recovery", "1s", "--least-sections", "1")
    server = ("--server", etcd, "--nodes", "3", "--persistence", "aof-always", "--nemesis", "none", "--seed", "3")
    code, verdict, said = judged(tmp_path, "--lock-command", command("etcd", "waiting_etcd.py"), *server, *load)
    blamed = {(finding["kind"], finding["blame"]) for finding in verdict["findings"]}
    assert (code, ("overlap", "lock") in blamed) == ((1, True) if version == "3.4" else (0, False)), said


def command(name: str, program: Path | str) -> str:
    lock = manifest(name)
    if lock.language == "java":
        installed = installed_folder(lock)
        main = TOYS / program if isinstance(program, str) else program.stem
        return f"java -XX:+UseSerialGC -cp {installed}/classes:{installed}/jars/* {main}"
    path = f"PYTHONPATH={half('python')}:{lock.source}"
    return f"env {path} {installed_folder(lock) / 'bin/python'} {TOYS / program}"


def under(name: str) -> tuple[str, ...]:
    _, nemesis, load = CONTROLS[name]
    usual = ("--clients", "2", "--recovery", "1s", "--least-sections", "1", "--seed", "3")
    return ("--server", manifest(name).server or name, "--nodes", "3", "--nemesis", nemesis, *usual, *load)


def networks(processes: list[psutil.Process]) -> set[str]:
    """The network namespaces that these processes are in."""
    found = set()
    for process in processes:
        with suppress(OSError):
            found.add(os.readlink(f"/proc/{process.pid}/ns/net"))  # noqa: PTH115
    return found


@on_each
def test_nothing_is_left_after_a_kill_neither_members_nor_their_networks(tmp_path: Path, name: str) -> None:
    run = runs.start(tmp_path, "test", "--lock", name, "--clients", "1", "--duration", "60s", "--cluster", "process")
    own = psutil.Process(run.pid)

    def members() -> list[psutil.Process]:
        found = []
        for child in own.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                found += [child] * (child.name() == PROGRAM[name])
        return found

    assert becomes_true(lambda: len(members()) == 3, within_s=30, every_s=0.05)
    made = networks(members())
    assert len(made) == 3
    run.kill()
    run.communicate()
    assert becomes_true(lambda: not made & networks(list(every_process())), within_s=15, every_s=0.1)
    assert not [name for name in psutil.net_if_addrs() if name.startswith("members")]


@pytest.mark.needs("lock:etcd")
@pytest.mark.needs("lock:zookeeper")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--lock", "etcd", "--cluster", "docker", "--nemesis", "power", "--persistence", "aof-always"),
            "the members of a group (etcd) have no disks of their own in containers",
        ),
        (
            ("--lock", "redlock", "--nemesis", "members"),
            "needs members that talk to each other",
        ),
        (
            ("--lock", "redis-sentinel", "--server", "redis"),
            "--server redis: redis-sentinel needs redis-sentinel",
        ),
        (
            ("--lock", "redlock", "--server", "redis-cluster"),
            "--lock redlock runs on redis, and --server redis-cluster is redis-cluster",
        ),
        (("--lock", "etcd", "--nodes", "4"), "--nodes 4: etcd uses 3"),
        (("--lock", "etcd", "--nemesis", "members:shape=ring"), "ring"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    code, out, err = runs.fencepost(tmp_path, "test", *words)
    assert (code, out) == (254, "")
    assert said in err
    assert len(err.splitlines()) == 1
