"""Runs on the workers of a Dask scheduler that is somebody else's: each worker has a tools folder and temporary files
of its own, and shares nothing with the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cluster.polling import becomes_true
from harness.cli.main import run as run_here
from tests.campaign.schedulers import Cluster, Network
from tests.campaign.test_whole_campaign import ARGUMENTS, lines_of
from tests.harness import runs

WITHIN_S = 120
CAMPAIGN = [*ARGUMENTS]
CAMPAIGN[CAMPAIGN.index("--seeds") + 1] = "1"


def is_final(line: Mapping[str, Any]) -> bool:
    return "error" not in line and not (line.get("at_once", 1) > 1 and line["figures"].get("disturbed"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


def test_a_worker_that_lacks_something_is_given_no_runs_and_one_that_dies_costs_its_run_only(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.add("bare", FENCEPOST_TOOLS=str(tmp_path / "no-tools"), PATH=str(Path(sys.executable).parent))
    cluster.add("dying")
    process = runs.start(tmp_path, *CAMPAIGN[:1], "--scheduler", cluster.address, *CAMPAIGN[1:])
    assert becomes_true(lambda: process.poll() is not None or cluster.has_begun("dying"), within_s=WITHIN_S)
    cluster.kill("dying")
    cluster.add("heir")
    code, out, err = runs.finish(process, WITHIN_S)
    assert code == 0, out + err
    assert err == ""
    assert "given no runs: no redis-server" in out
    assert f"on workers of {cluster.address}" in out
    last = {line["cell"]: line for line in lines_of(tmp_path)}
    assert set(last) == {"redlock", "control-quorum-of-two"}
    kept = [path.name for path in (tmp_path / "results" / "runs").iterdir() if path.is_dir() and not path.is_symlink()]
    assert sorted(kept) == sorted(str(line["folder"]) for line in lines_of(tmp_path)), "each run came once, and whole"
    for line in last.values():
        verdict = tmp_path / "results" / "runs" / str(line["folder"]) / "verdict.json"
        assert json.loads(verdict.read_text())["verdict"] == line["verdict"]
    code, out, err = runs.fencepost(tmp_path, "analyze", str(last["redlock"]["folder"]))
    assert code in (0, 2), out + err
    assert becomes_true(lambda: cluster.has_nothing_left("heir"), within_s=30)


@pytest.mark.timeout(3 * WITHIN_S)
@pytest.mark.needs("networks")
def test_over_networks_a_killed_worker_and_a_scheduler_that_comes_back_cost_runs_that_are_made_again(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        hub = Network(stack, "10.0.0.1")
        networks = {name: Network(stack, f"10.0.0.{number}") for number, name in enumerate(("one", "two"), start=2)}
        for name, network in networks.items():
            hub.link(network, name)
        cluster = Cluster(tmp_path, stack, network=hub)
        for name, network in networks.items():
            cluster.add(name, network=network)
        words = [*ARGUMENTS[:1], "--scheduler", cluster.address, *ARGUMENTS[1:]]
        process = runs.start(tmp_path, *words, before=hub.before)

        def ends_or(condition: Callable[[], bool]) -> bool:
            return becomes_true(lambda: process.poll() is not None or condition(), within_s=WITHIN_S)

        assert ends_or(lambda: cluster.has_begun("one"))
        assert process.poll() is None
        cluster.kill("one")
        assert ends_or(lambda: bool(lines_of(tmp_path)))
        assert ends_or(lambda: cluster.has_begun("two"))
        assert process.poll() is None
        cluster.restart()
        assert ends_or(lambda: cluster.has_ended("two")), "a worker of Dask's ends with its scheduler"
        for name, network in networks.items():
            cluster.add(f"{name}-again", network=network)
        code, out, err = runs.finish(process, WITHIN_S)
        assert code == 0, out + err
        assert err == ""
        lines = lines_of(tmp_path)
        assert {(line["cell"], line["seed"]) for line in lines} == {
            (cell, seed) for cell in ("redlock", "control-quorum-of-two") for seed in (1, 2)
        }
        final = Counter((line["cell"], line["seed"]) for line in lines if is_final(line))
        assert set(final.values()) == {1}, "only what broke off, or what others had disturbed, is made again"
        report = json.loads((tmp_path / "report" / "report.json").read_text())
        counted = {cell["cell"]: cell["runs_with_overlap_lock_of"] for cell in report["cells"]}
        assert counted == {"redlock": 2, "control-quorum-of-two": 2}
        kept = [path.name for path in (tmp_path / "results" / "runs").iterdir() if not path.is_symlink()]
        assert sorted(kept) == sorted(str(line["folder"]) for line in lines), "each run came once, and whole"
        for name in ("two", "one-again", "two-again"):
            assert becomes_true(lambda: cluster.has_nothing_left(name), within_s=30), name  # noqa: B023
        assert runs.processes_below(tmp_path) == []


def test_a_command_that_is_killed_leaves_nothing_on_its_workers(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add("one")
    process = runs.start(tmp_path, *CAMPAIGN[:1], "--scheduler", cluster.address, *CAMPAIGN[1:])
    assert becomes_true(lambda: process.poll() is not None or cluster.has_begun("one"), within_s=WITHIN_S)
    (run,) = cluster.folder("one").glob("**/fencepost-run-*/2*")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    assert becomes_true(lambda: not run.exists(), within_s=60), "nobody wants it any more"
    assert runs.processes_of(run) == []
    assert not list(cluster.folder("one").glob("tmp/fencepost-*/2*"))


def test_a_scheduler_that_does_not_answer_is_told_before_anything_starts(tmp_path: Path) -> None:
    code, out, err = runs.fencepost(tmp_path, *CAMPAIGN[:1], "--scheduler", "tcp://127.0.0.1:1", *CAMPAIGN[1:])
    assert code == 254, out + err
    assert err.startswith("fencepost: --scheduler tcp://127.0.0.1:1: no Dask scheduler answers there")
    assert err.count("\n") == 1
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("command", ["compare", "mutants", "claims", "survey", "nightly"])
def test_every_command_that_makes_many_runs_makes_them_on_a_scheduler(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--axis", "lock=redlock"] if command == "compare" else []
    asked = [command, *words, "--scheduler", "tls://127.0.0.1:1", "--report", str(tmp_path / "report")]
    assert run_here(asked) == 254
    err = capsys.readouterr().err
    assert err.startswith("fencepost: --scheduler tls://127.0.0.1:1: tls:// needs certificates"), err
    assert not (tmp_path / "report").exists()


@pytest.mark.timeout(2 * WITHIN_S)
@pytest.mark.needs("mounts")
def test_a_full_disk_at_one_worker_is_one_line_and_the_others_make_its_runs(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_on_a_full_disk("full", free_kb=300)
    cluster.add("sound")
    code, out, err = runs.fencepost(
        tmp_path, *CAMPAIGN[:1], "--scheduler", cluster.address, *CAMPAIGN[1:], timeout_s=WITHIN_S
    )
    assert code == 0, out + err
    assert err == ""
    (told,) = [line for line in out.splitlines() if "worker full" in line]
    assert told.startswith("a run was aborted on worker full, and is made again: no space left to write ")
    assert {line["cell"] for line in lines_of(tmp_path)} == {"redlock", "control-quorum-of-two"}


@pytest.fixture
def certificates(tmp_path: Path) -> Mapping[str, str]:
    """Dask's configuration, as environment variables, with a certificate that is its own authority."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    asked = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    subprocess.run([*asked, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    variables = {"CA_FILE": cert}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        variables |= {f"{role}__CERT": cert, f"{role}__KEY": key}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path) for name, path in variables.items()}


@pytest.mark.timeout(3 * WITHIN_S)
@pytest.mark.needs("openssl")
def test_runs_are_made_over_tls_with_dasks_certificates_and_refused_in_one_line_without(
    certificates: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def played() -> tuple[int, str, str]:
        words = ["compare", "--scheduler", secured.address, "--axis", "lock=redlock", *CAMPAIGN[3:]]
        return runs.fencepost(tmp_path, *words, timeout_s=WITHIN_S)

    with ExitStack() as stack:
        secured = Cluster(tmp_path, stack, "tls", secured=certificates)
        secured.add("one")
        assert secured.address.startswith("tls://")
        code, out, err = played()
        assert code == 254, out + err
        assert "tls:// needs certificates, and Dask's configuration has no distributed.comm.tls.ca-file" in err
        assert err.count("\n") == 1
        for name, value in certificates.items():
            monkeypatch.setenv(name, value)
        gone = str(tmp_path / "gone.pem")
        monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY", gone)
        code, out, err = played()
        assert code == 254, out + err
        assert err.endswith(f"distributed.comm.tls.client.key in Dask's configuration names cannot be read: {gone}\n")
        assert not (tmp_path / "report").exists()
        monkeypatch.setenv(
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY", certificates["DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY"]
        )
        code, out, err = played()
        assert code == 0, out + err
        assert [line["cell"] for line in lines_of(tmp_path)] == ["redlock"]
