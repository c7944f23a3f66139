"""Whole runs of a lock on a group of members: a verdict, a control that is caught, and nothing that is left behind."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from cluster.polling import becomes_true
from tests.harness import runs
from workloads.installation import installed_folder
from workloads.languages.base import half
from workloads.manifest import Manifest
from workloads.registry import foreign_locks

pytestmark = [pytest.mark.needs("members"), pytest.mark.needs("lock:etcd")]

CONTROL = Path(__file__).parents[1] / "toys" / "endless_etcd.py"


def etcd() -> Manifest:
    return next(lock for lock in foreign_locks() if lock.name == "etcd")


def judged(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    code, out, err = runs.fencepost(folder, "test", *arguments, "--cluster", "process")
    return code, json.loads((runs.only_run(folder) / "verdict.json").read_text()), out + err


def test_a_correct_lock_survives_the_loss_of_its_leader_and_the_record_says_how_long_that_took(tmp_path: Path) -> None:
    load = ("--clients", "3", "--duration", "9s", "--seed", "1", "--least-sections", "1")
    code, verdict, said = judged(tmp_path, "--lock", "etcd", "--nemesis", "leader:how=cut,duration=4s", *load)
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


def test_a_client_that_ignores_that_its_session_has_ended_is_caught(tmp_path: Path) -> None:
    lock = etcd()
    path = f"PYTHONPATH={half('python')}:{lock.source}"
    command = f"env {path} {installed_folder(lock) / 'bin/python'} {CONTROL}"
    load = ("--clients", "2", "--duration", "8s", "--hold", "3s", "--recovery", "1s", "--least-sections", "1")
    server = ("--server", "etcd", "--nodes", "3", "--nemesis", "none")
    code, verdict, said = judged(tmp_path, "--lock-command", command, *server, *load)
    assert code == 1, said
    assert ("overlap", "lock") in {(finding["kind"], finding["blame"]) for finding in verdict["findings"]}


def networks(processes: list[psutil.Process]) -> set[str]:
    """The network namespaces that these processes are in."""
    found = set()
    for process in processes:
        with suppress(OSError):
            found.add(os.readlink(f"/proc/{process.pid}/ns/net"))  # noqa: PTH115
    return found


def test_nothing_is_left_after_a_kill_neither_members_nor_their_networks(tmp_path: Path) -> None:
    run = runs.start(tmp_path, "test", "--lock", "etcd", "--clients", "1", "--duration", "60s", "--cluster", "process")
    own = psutil.Process(run.pid)

    def members() -> list[psutil.Process]:
        found = []
        for child in own.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                found += [child] * (child.name() == "etcd")
        return found

    assert becomes_true(lambda: len(members()) == 3, within_s=30, every_s=0.05)
    made = networks(members())
    assert len(made) == 3
    run.kill()
    run.communicate()
    assert becomes_true(lambda: not made & networks(list(psutil.process_iter())), within_s=15, every_s=0.1)
    assert not [name for name in psutil.net_if_addrs() if name.startswith("members")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--lock", "etcd", "--cluster", "docker"),
            "the members of a group (etcd) run as processes only",
        ),
        (
            ("--lock", "redlock", "--nemesis", "members"),
            "needs members that talk to each other",
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
