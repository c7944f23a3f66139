from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import run
from tests.peers.recorded import unpack


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--clients", "-1"], "--clients"),
        (["--clients", "many"], "whole number"),
        (["--clients", "0"], "between 1 and 256"),
        (["--nodes", "10"], "between 1 and 9"),
        (["--nodes", "9", "--clients", "256"], "2000 links"),
        (["--ttl", "-1s"], "--ttl"),
        (["--ttl", "40ms"], "shorter than --node-timeout"),
        (["--ttl", "1e400"], "--ttl"),
        (["--duration", "0"], "--duration"),
        (["--hold", "sometimes"], "hold"),
        (["--extend", "-1"], "--extend"),
        (["--extend", "often"], "whole number"),
        (["--seed", "-3"], "--seed"),
        (["--seed", "nan"], "whole number"),
        (["--lock", "redlok"], "redlock"),
        (["--lock", "no.such.module:Lock"], "no.such.module"),
        (["--lock", "json:JSONDecoder"], "json:JSONDecoder"),
        (["--lock-command", "/no/such/program"], "/no/such/program"),
        (["--nemesis", "partitions"], "partition"),
        (["--nemesis", "partition:durations=2s"], "duration"),
        (["--nemesis", "partition:duration=-2s"], "duration"),
        (["--schedule", "/no/such/schedule.json"], "/no/such/schedule.json"),
        (["--server", "/etc/hostname"], "/etc/hostname"),
        (["--server", "memcached"], "memcached"),
        (["--fencing", "some"], "--fencing"),
        (["--persistence", "sometimes"], "--persistence"),
        (["--disk-fs", "ntfs"], "--disk-fs"),
        (["--disk-fs", "xfs"], "--disk-fs xfs changes nothing"),
        (["--nemesis", "crash", "--restart-delay", "soon"], "--restart-delay: 'soon' is not a duration"),
        (["--nemesis", "crash", "--restart-delay", "-1s"], "--restart-delay"),
        (["--nemesis", "crash", "--restart-delay", "5000ttl"], "5000ttl is not between"),
        (["--nemesis", "partition", "--restart-delay", "0"], "crash, hunt, power, shutdown"),
        (["--schedule", "schedule.json", "--restart-delay", "0"], "cannot change a saved schedule"),
        (["--renewal", "100ms", "--extend", "2"], "give only one of them"),
        (["--replication", "sentinels"], "--replication"),
        (["--replication", "sentinel", "--nodes", "1"], "one node has no replica"),
        (["--replication", "sentinel"], "add --witness off"),
        (["--replication", "manual", "--witness", "off"], "is for scripts"),
        (["--lock", "primary-by-sentinel"], "add --replication sentinel"),
        (["--tasks", "0"], "--tasks"),
        (["--tasks", "64"], "more than 512"),
        (["--name", "my lock"], "--name is 'my lock'; it must be 1 to 40 letters"),
        (["--name", "../up"], "--name"),
        (["--name", "n" * 41], "1 to 40 letters"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_bad_input_is_one_clear_line_and_254_before_anything_starts(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lock = [] if "--lock-command" in arguments else ["--lock", "redlock"]
    assert run(["test", "--cluster", "process", *lock, *arguments]) == 254
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert words in err
    assert list(tmp_path.iterdir()) == []


NONE = "--persistence none: the server postgres offers only aof-always"
ON_PROCESSES = ["--cluster", "process", "--lock", "postgres-advisory"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["test", *ON_PROCESSES, "--persistence", "none"], NONE),
        (["test", *ON_PROCESSES, "--server", "redis"], "--server redis: postgres-advisory needs postgres"),
        (["test", *ON_PROCESSES, "--nodes", "5"], "--nodes 5: postgres-advisory needs 1"),
        (["test", *ON_PROCESSES, "--nodes", "3"], "--nodes 3: postgres-advisory uses 1"),
        (["test", *ON_PROCESSES, "--tasks", "2"], "--tasks 2: tasks of a client cannot share postgres-advisory"),
        (["test", "--lock", "postgres-row", "--tasks", "2"], "--tasks 2: tasks of a client cannot share postgres-row"),
        (
            ["test", "--lock", "postgres-transaction", "--workload", "fenced-counter"],
            "--workload fenced-counter: postgres-transaction needs transaction-counter",
        ),
        (["compare", "--axis", "persistence=none,aof-always", "--seeds", "1", "--", *ON_PROCESSES], NONE),
        (["script", "crash-without-persistence", *ON_PROCESSES], NONE),
    ],
)
def test_what_the_user_named_and_the_lock_cannot_have_is_refused_and_not_replaced(
    command: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(command) == 254
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_a_replay_refuses_what_its_other_lock_cannot_have(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recorded = unpack(tmp_path) / "control-quorum-of-two-partition-pause-16"
    assert run(["replay", str(recorded), "--lock", "postgres-advisory", "--persistence", "none"]) == 254
    assert NONE in capfd.readouterr().err


def test_a_foreign_schedule_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package.json").write_text('{"name": "something else"}')
    assert run(["test", "--cluster", "process", "--lock", "redlock", "--schedule", "package.json"]) == 254
    assert "package.json" in capfd.readouterr().err


@pytest.mark.parametrize("given", ["nowhere", "foreign"])
def test_analyze_refuses_what_is_no_run_folder(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "foreign").mkdir()
    assert run(["analyze", given]) == 254
    err = capfd.readouterr().err
    assert given in err
    assert len(err.splitlines()) == 1


def test_help_names_every_nemesis_and_every_lock(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["test", "--help"]) == 0
    out = capsys.readouterr().out
    for name in (
        "partition",
        "latency",
        "pause",
        "crash",
        "power",
        "shutdown",
        "redlock-ng",
        "pottery",
        "control-quorum-of-two",
    ):
        assert name in out


def test_a_machine_without_redis_server_says_so_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FENCEPOST_TOOLS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["test", "--cluster", "process", "--lock", "redlock"]) == 255
    err = capfd.readouterr().err
    assert "no redis-server" in err
    assert "make setup" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--nemesis", "power"], ["--disks"], ["--nemesis", "crash+power"]])
@pytest.mark.parametrize("backend", ["process", "auto"])
def test_without_root_power_cuts_are_refused_before_anything_starts(
    arguments: list[str],
    backend: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert run(["test", "--cluster", backend, "--lock", "redlock", *arguments]) == 254
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert "need root" in err
    assert list(tmp_path.iterdir()) == []


def test_docker_asked_for_without_an_engine_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    assert run(["test", "--cluster", "docker", "--lock", "redlock"]) == 255
    err = capfd.readouterr().err
    assert "no Docker engine answers" in err
    assert len(err.splitlines()) == 1
