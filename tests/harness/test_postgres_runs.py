"""Whole runs of locks that a PostgreSQL session or its transaction holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import runs
from workloads.installation import installed_folder
from workloads.languages.base import half
from workloads.manifest import Manifest
from workloads.registry import foreign_locks

pytestmark = pytest.mark.needs("lock:postgres-advisory")

SERVER = ("--server", "postgres", "--nodes", "1", "--nemesis", "none")
QUICKLY = ("--clients", "3", "--duration", "2s", "--recovery", "500ms", "--cluster", "process", "--least-sections", "1")
TOYS = Path(__file__).parents[1] / "toys"


def advisory() -> Manifest:
    return next(lock for lock in foreign_locks() if lock.name == "postgres-advisory")


def judged(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    code, _, err = runs.fencepost(folder, "test", *QUICKLY, *arguments)
    return code, json.loads((runs.only_run(folder) / "verdict.json").read_text()), err


def command(toy: str) -> str:
    lock = advisory()
    path = f"PYTHONPATH={half('python')}:{lock.source}"
    return f"env {path} {installed_folder(lock) / 'bin/python'} {TOYS / toy}"


@pytest.mark.parametrize("lock", ["postgres-advisory", "postgres-row"])
def test_a_lock_brings_its_own_server_and_what_that_does_not_record_is_said(tmp_path: Path, lock: str) -> None:
    code, verdict, err = judged(tmp_path, "--lock", lock, "--nemesis", "none")
    assert (code, verdict["findings"]) == (0, []), err
    cluster = json.loads((runs.only_run(tmp_path) / "environment.json").read_text())["cluster"]
    assert (cluster["server"]["name"], cluster["key_events"]) == ("postgres", False)
    assert verdict["figures"]["exclusion"]["sections"] > 0


def test_a_nested_acquire_in_a_transaction_is_refused_so_that_nothing_commits_early(tmp_path: Path) -> None:
    nested = ("--lock", "postgres-row", "--reenter", "1", "--nemesis", "none", "--duration", "1s", "--recovery", "0ms")
    code, verdict, err = judged(tmp_path, *nested)
    assert (code, verdict["findings"]) == (0, []), err
    ops = [json.loads(line) for line in (runs.only_run(tmp_path) / "clients/c1.1.jsonl").read_text().splitlines()]
    assert {op["outcome"] for op in ops if op["f"] == "reenter"} == {"fail"}


def test_a_pool_that_resets_the_session_is_caught(tmp_path: Path) -> None:
    code, verdict, err = judged(tmp_path, "--lock-command", command("pooled_postgres.py"), *SERVER)
    assert code == 1, err
    assert ("overlap", "lock") in {(finding["kind"], finding["blame"]) for finding in verdict["findings"]}


@pytest.mark.needs("mounts")
def test_what_a_transaction_committed_outlives_cuts_of_power(tmp_path: Path) -> None:
    cuts = ("--nemesis", "power:targets=n1,restart-delay=0,interval=1s", "--most-empty", "100", "--least-reach", "0")
    code, verdict, err = judged(tmp_path, "--lock", "postgres-transaction", *cuts)
    assert code == 0, err
    assert verdict["figures"]["counter"]["acknowledged"] > 0
    assert verdict["figures"]["faults"]["observed"] > 0


@pytest.mark.needs("engine")
def test_it_runs_in_a_container_with_what_set_up_brought(tmp_path: Path) -> None:
    words = ("--lock", "postgres-advisory", "--nemesis", "crash:targets=n1,restart-delay=0", "--cluster", "docker")
    code, verdict, err = judged(tmp_path, *words, "--duration", "3s")
    assert (code, "lock" in {found["blame"] for found in verdict["findings"]}) == (0, False), err
    cluster = json.loads((runs.only_run(tmp_path) / "environment.json").read_text())["cluster"]
    assert (cluster["backend"], cluster["server"]["version"]) == ("docker", "18.6")


def test_a_lock_that_connects_anew_in_silence_is_caught_and_its_ended_session_named(tmp_path: Path) -> None:
    """However long the server takes to come back: it is down for longer than a client stays inside."""
    lock = ("--lock-command", command("reconnecting_postgres.py"), *SERVER[:4], "--hold", "900ms")
    crashes = "crash:targets=n1,restart-delay=2s,interval=1s"
    code, verdict, err = judged(tmp_path, *lock, "--nemesis", crashes, "--duration", "5s")
    assert code == 1, err
    assert ("ended-session-vouched", "lock") in {(found["kind"], found["blame"]) for found in verdict["findings"]}


def test_data_in_the_locks_own_transaction_are_counted_where_the_lock_is(tmp_path: Path) -> None:
    code, verdict, err = judged(tmp_path, "--lock", "postgres-transaction", "--nemesis", "none")
    assert (code, verdict["findings"]) == (0, []), err
    figures = verdict["figures"]["counter"]
    assert figures["final"]["k1"] == figures["accepted"] == figures["acknowledged"] > 0
    config = json.loads((runs.only_run(tmp_path) / "config.json").read_text())
    assert (config["workload"], config["persistence"]) == ("transaction-counter", "aof-always")


def test_data_in_another_transaction_than_the_lock_are_lost_and_the_lock_is_blamed(tmp_path: Path) -> None:
    lock = ("--lock-command", command("data_in_another_transaction.py"), "--workload", "transaction-counter")
    code, verdict, err = judged(tmp_path, *lock, *SERVER)
    assert code == 1, err
    found = {(finding["kind"], finding["blame"]) for finding in verdict["findings"]}
    assert {("overlap", "lock"), ("lost-update", "lock")} <= found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--lock", "redlock", "--server", "postgres"), "--lock redlock runs on redis, and --server postgres is"),
        (("--lock", "postgres-advisory", "--server", "valkey"), "--lock postgres-advisory runs on postgres"),
        (("--lock", "postgres-advisory", "--nodes", "3"), "--nodes 3: postgres-advisory uses 1"),
        (("--lock", "postgres-advisory", "--server", "postgres=image:postgres:18"), "only the one that set-up brings"),
        (("--lock", "postgres-advisory", "--nemesis", "clock"), "clock"),
        (("--lock", "postgres-advisory", "--persistence", "rdb"), "--persistence rdb: the server postgres"),
        (("--lock", "postgres-advisory", "--workload", "transaction-counter"), "choose postgres-transaction"),
        (("--workload", "transaction-counter", "--lock", "redlock"), "choose postgres-transaction"),
        (("--lock-command", "cat", "--workload", "transaction-counter"), "the server redis is none"),
        (("--lock", "postgres-transaction", "--fencing", "all"), "--fencing all means nothing to --workload transac"),
        (("--lock", "postgres-transaction", "--reenter", "1"), "--reenter means nothing to --workload transaction-"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    code, out, err = runs.fencepost(tmp_path, "test", *words)
    assert (code, out) == (254, "")
    assert said in err
    assert len(err.splitlines()) == 1
