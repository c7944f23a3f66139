"""Whole runs of locks that a PostgreSQL session holds."""

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

QUICKLY = ("--clients", "3", "--duration", "2s", "--recovery", "500ms", "--cluster", "process", "--least-sections", "1")
CONTROL = Path(__file__).parents[1] / "toys" / "pooled_postgres.py"


def advisory() -> Manifest:
    return next(lock for lock in foreign_locks() if lock.name == "postgres-advisory")


def judged(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    code, _, err = runs.fencepost(folder, "test", *arguments, *QUICKLY)
    return code, json.loads((runs.only_run(folder) / "verdict.json").read_text()), err


@pytest.mark.parametrize("lock", ["postgres-advisory", "postgres-row"])
def test_a_lock_brings_its_own_server_and_what_that_does_not_record_is_said(tmp_path: Path, lock: str) -> None:
    code, verdict, err = judged(tmp_path, "--lock", lock, "--nemesis", "none")
    assert (code, verdict["findings"]) == (0, []), err
    cluster = json.loads((runs.only_run(tmp_path) / "environment.json").read_text())["cluster"]
    assert (cluster["server"]["name"], cluster["key_events"]) == ("postgres", False)
    assert verdict["figures"]["exclusion"]["sections"] > 0


def test_a_pool_that_resets_the_session_is_caught(tmp_path: Path) -> None:
    lock = advisory()
    path = f"PYTHONPATH={half('python')}:{lock.source}"
    command = f"env {path} {installed_folder(lock) / 'bin/python'} {CONTROL}"
    server = ("--server", "postgres", "--nodes", "1", "--nemesis", "none")
    code, verdict, err = judged(tmp_path, "--lock-command", command, *server)
    assert code == 1, err
    assert ("overlap", "lock") in {(finding["kind"], finding["blame"]) for finding in verdict["findings"]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--lock", "redlock", "--server", "postgres"), "--lock redlock runs on redis, and --server postgres is"),
        (("--lock", "postgres-advisory", "--server", "valkey"), "--lock postgres-advisory runs on postgres"),
        (("--lock", "postgres-advisory", "--nodes", "3"), "--nodes 3: postgres-advisory uses 1"),
        (("--lock", "postgres-advisory", "--cluster", "docker"), "--cluster docker: postgres reads files beside"),
        (("--lock", "postgres-advisory", "--nemesis", "clock"), "clock"),
        (("--lock", "postgres-advisory", "--persistence", "rdb"), "--persistence rdb: the server postgres"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    code, out, err = runs.fencepost(tmp_path, "test", *words)
    assert (code, out) == (254, "")
    assert said in err
    assert len(err.splitlines()) == 1
