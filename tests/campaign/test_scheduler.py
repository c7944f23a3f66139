"""Runs on the workers of a Dask scheduler that is somebody else's: each worker has a tools folder and temporary files
of its own, and shares nothing with the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster.waiting import becomes_true
from tests.campaign.test_whole_campaign import ARGUMENTS, lines_of
from tests.harness import runs

WITHIN_S = 120
CAMPAIGN = [*ARGUMENTS]
CAMPAIGN[CAMPAIGN.index("--seeds") + 1] = "1"


class Cluster:
    """A scheduler and its workers, each a process with a session of its own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        file = folder / "scheduler.json"
        self._start("scheduler", "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        assert becomes_true(lambda: file.exists() and bool(file.read_text()), within_s=60)
        self.address = str(json.loads(file.read_text())["address"])

    def add(self, name: str, **environment: str) -> None:
        own = self.folder(name)
        (own / "tmp").mkdir(parents=True)
        words = ["worker", self.address, "--name", name, "--nthreads", "2", "--no-nanny", "--local-directory", str(own)]
        self._start(name, *words, "--host", "127.0.0.1", TMPDIR=str(own / "tmp"), **environment)

    def folder(self, name: str) -> Path:
        return self._folder / name

    def kill(self, name: str) -> None:
        os.killpg(self._processes[name].pid, signal.SIGKILL)

    def _start(self, process: str, *words: str, **environment: str) -> None:
        started = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "dask", *words, "--no-dashboard"],
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
