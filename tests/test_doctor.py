"""The doctor finds what is missing, says how to fix it, and knows what the main job needs."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from cluster.lifetime import RunState
from harness.cli.doctor import Check, examine, exit_code, render
from harness.report.terminal import Terminal
from tests.cluster.test_engine_http import engine
from tests.cluster.test_engine_trial import ABLE, answers
from workloads.registry import foreign_locks


def named(checks: tuple[Check, ...], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def program(path: Path, says: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)


def test_on_a_machine_that_is_set_up_the_main_job_can_run() -> None:
    checks = examine()
    assert {check.name for check in checks if check.essential and not check.ok} == set()
    assert exit_code(checks) == 0
    assert named(checks, "lock redlock-ng").ok


def test_one_line_a_language_says_which_locks_are_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_TOOLS", str(tmp_path))
    checks = examine()
    line = named(checks, "locks in Python")
    names = list(dict.fromkeys(lock.installed_as for lock in foreign_locks() if lock.language == "python"))
    assert {"pottery", "redlock-ng", "redlock-py"} <= set(names)
    assert line.found == f"not installed: {', '.join(names)}"
    assert line.fix == f"fencepost setup --lock {' --lock '.join(names)}"
    assert not line.essential
    assert named(checks, "lock redlock-ng").essential


def test_every_failed_check_says_how_to_fix_it() -> None:
    assert [check.name for check in examine() if check.ok == bool(check.fix)] == []


def test_one_line_a_server_program_says_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_TOOLS", str(tmp_path))
    checks = examine()
    names = [check.name for check in checks]
    assert sorted(names) == sorted(set(names))
    assert named(checks, "valkey-server").fix == "make setup"
    by_name = {lock.name: lock.server for lock in foreign_locks()}
    for name in ("etcd", "hazelcast", "postgres", "zookeeper"):
        assert by_name[named(checks, name).fix.removeprefix("fencepost setup --lock ")] == name


def test_without_servers_the_main_job_cannot_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_TOOLS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    checks = examine()
    assert named(checks, "pauses (SIGSTOP)").ok
    for name in ("redis-server", "toxiproxy"):
        assert not named(checks, name).ok
        assert named(checks, name).fix == "make setup"
    assert exit_code(checks) == 255


def test_another_release_of_toxiproxy_is_not_good_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_TOOLS", str(tmp_path))
    program(tmp_path / "bin/fencepost-toxiproxy", "fencepost-toxiproxy version 2.5.0")
    check = named(examine(), "toxiproxy")
    assert not check.ok
    assert "2.5.0" in check.found


def test_an_engine_that_does_not_answer_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    checks = examine()
    assert not named(checks, "Docker engine").ok
    assert exit_code(checks) == 0


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ({"SecurityOptions": ["name=rootless"]}, "cannot host a cluster: it is rootless"),
        ({}, "cannot host a cluster: .*no import today"),
    ],
    ids=["rootless", "refuses what a run needs"],
)
def test_an_engine_that_answers_and_cannot_host_a_cluster_is_absent(
    says: dict[str, object], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with engine(answers({**ABLE, **says})) as (port, _):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        checks = examine()
    check = named(checks, "Docker engine")
    assert not check.ok
    assert re.search(found, check.found)
    assert "--cluster process" in check.fix
    assert exit_code(checks) == 0


def test_dead_runs_are_found_and_living_ones_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with RunState.create("alive"):
        assert named(examine(), "leftovers").ok
        state = tmp_path / next(tmp_path.iterdir()).name
        (state / "dead").mkdir()
        check = named(examine(), "leftovers")
        assert not check.ok
        assert "dead" in check.found
        assert "alive" not in check.found
        assert check.fix == "make clean"
        (state / "dead").rmdir()


def test_the_table_shows_each_check_and_how_to_fix_it() -> None:
    out = io.StringIO()
    checks = (
        Check("redis-server", False, "no redis-server in [somewhere]", "make setup", essential=True),
        Check("root", True, "yes"),
    )
    Terminal(out, width=120).print(render(checks))
    text = out.getvalue()
    assert "no redis-server in [somewhere]" in text
    assert "make setup" in text
    assert "cannot run here" in text
