"""Runs on the workers of a Dask scheduler that is somebody else's: each worker has a tools folder and temporary files
of its own, and shares nothing with the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster.waiting import becomes_true
from harness.campaign.dask_cluster import count_workers
from tests.campaign.test_whole_campaign import ARGUMENTS, lines_of
from tests.harness import runs

WITHIN_S = 120
CAMPAIGN = [*ARGUMENTS]
CAMPAIGN[CAMPAIGN.index("--seeds") + 1] = "1"


class Cluster:
    """A scheduler and its workers, each a process with a session of its own."""

    def __init__(self, folder: Path, stack: ExitStack, protocol: str = "tcp", **secured: str) -> None:
        """`secured`: Dask's configuration of its certificates, if it needs some."""
        self._folder = folder
        self._stack = stack
        self._secured = secured
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        file = folder / "scheduler.json"
        words = ["--protocol", protocol, "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
        self._start("scheduler", "scheduler", *words, **secured)
        assert becomes_true(lambda: file.exists() and bool(file.read_text()), within_s=60)
        self.address = str(json.loads(file.read_text())["address"])

    def add(self, name: str, before: Sequence[str] = (), **environment: str) -> None:
        """`before`: a command that starts the worker."""
        own = self.folder(name)
        (own / "tmp").mkdir(parents=True)
        words = ["worker", self.address, "--name", name, "--nthreads", "2", "--no-nanny", "--local-directory", str(own)]
        words += ["--host", "127.0.0.1"]
        self._start(name, *words, before=before, TMPDIR=str(own / "tmp"), **self._secured, **environment)

    def add_on_a_full_disk(self, name: str, free_kb: int) -> None:
        """A worker whose folder is on a small disk of its own, which nobody else sees and which ends with it."""
        script = f'mount -t tmpfs -o size={free_kb}k none "$0" && mkdir "$0/tmp" && exec "$@"'
        self.add(name, before=["unshare", "-m", "sh", "-c", script, str(self.folder(name))])

    def folder(self, name: str) -> Path:
        return self._folder / name

    def kill(self, name: str) -> None:
        os.killpg(self._processes[name].pid, signal.SIGKILL)

    def _start(self, process: str, *words: str, before: Sequence[str] = (), **environment: str) -> None:
        started = self._stack.enter_context(
            subprocess.Popen(
                [*before, sys.executable, "-m", "dask", *words, "--no-dashboard"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=(self._folder / f"{process}.log").open("wb"),
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": str(runs.ROOT)} | environment,
            )
        )
        self._stack.callback(started.kill)
        self._processes[process] = started


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


def begun(cluster: Cluster, name: str) -> Callable[[], bool]:
    """Whether a run is under load on this worker."""
    return lambda: bool(list(cluster.folder(name).glob("**/fencepost-run-*/2*/timeline.json")))


def test_a_worker_that_lacks_something_is_given_no_runs_and_one_that_dies_costs_its_run_only(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.add("bare", FENCEPOST_TOOLS=str(tmp_path / "no-tools"), PATH=str(Path(sys.executable).parent))
    cluster.add("dying")
    process = runs.start(tmp_path, *CAMPAIGN[:1], "--scheduler", cluster.address, *CAMPAIGN[1:])
    assert becomes_true(lambda: process.poll() is not None or begun(cluster, "dying")(), within_s=WITHIN_S)
    cluster.kill("dying")
    cluster.add("heir")
    code, out, err = runs.finish(process, WITHIN_S)
    assert code == 0, out + err
    assert err == ""
    assert "worker bare is given no runs: no redis-server" in out
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
    assert becomes_true(lambda: not list(cluster.folder("heir").glob("**/fencepost-run-*")), within_s=30)
    assert not list(cluster.folder("heir").glob("tmp/fencepost-*/2*"))


def test_a_command_that_is_killed_leaves_nothing_on_its_workers(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add("one")
    process = runs.start(tmp_path, *CAMPAIGN[:1], "--scheduler", cluster.address, *CAMPAIGN[1:])
    assert becomes_true(lambda: process.poll() is not None or begun(cluster, "one")(), within_s=WITHIN_S)
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


@pytest.mark.timeout(2 * WITHIN_S)
@pytest.mark.needs("mounts")
def test_a_full_disk_at_one_worker_is_one_line_and_the_others_make_its_runs(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_on_a_full_disk("full", free_kb=300)
    cluster.add("sound")
    assert becomes_true(lambda: count_workers(cluster.address) == 2, within_s=60)
    code, out, err = runs.fencepost(
        tmp_path, *CAMPAIGN[:1], "--scheduler", cluster.address, *CAMPAIGN[1:], timeout_s=WITHIN_S
    )
    assert code == 0, out + err
    assert err == ""
    (told,) = [line for line in out.splitlines() if "worker full" in line]
    assert told.startswith("a run broke off on worker full, and is made again: no space left to write ")
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
        secured = Cluster(tmp_path, stack, "tls", **certificates)
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
