"""Runs side by side, as a user makes them: a worker is killed, and a campaign is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dask.config
import psutil
import pytest

from cluster.polling import becomes_true
from harness.campaign.dask_cluster import local_cluster, present_at
from tests.campaign.test_whole_campaign import ARGUMENTS, lines_of
from tests.cluster.processes import is_gone
from tests.harness import runs

WITHIN_S = 120


@pytest.fixture
def campaign(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """Two runs at the same time, both under load, which lasts as long as the test asks for: on a busy machine one of
    them begins seconds after the other, and must find it still there."""
    own = [*ARGUMENTS]
    own[own.index("--seeds") + 1] = "1"
    own[own.index("--duration") + 1] = request.param
    process = runs.start(tmp_path, *own[:1], "--workers", "2", *own[1:])
    under_load = (tmp_path / "results" / "runs").glob
    assert becomes_true(
        lambda: process.poll() is not None or len(list(under_load("2*/timeline.json"))) == 2, within_s=WITHIN_S
    )
    yield process
    if process.poll() is None:
        process.terminate()
        process.communicate(timeout=60)


def scheduler_of(pid: int) -> psutil.Process:
    """The process of Dask's scheduler below this one."""
    children = psutil.Process(pid).children()
    (scheduler,) = (each for each in children if "harness.campaign.scheduler_process" in each.cmdline())
    return scheduler


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The workers, each with the process that makes its runs below it."""
    return [
        each for each in scheduler_of(process.pid).children() if any("spawn_main" in word for word in each.cmdline())
    ]


def makes_a_run(worker: psutil.Process) -> bool:
    return any(map(runs.belongs_to_a_run, worker.children(recursive=True)))


def is_tracker(process: psutil.Process) -> bool:
    """Whether it is Python's own, which ends when its parent has."""
    try:
        return any("resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return False


@pytest.mark.parametrize("campaign", ["2s"], indirect=True)
def test_a_worker_that_is_killed_costs_its_run_which_is_made_again(
    campaign: subprocess.Popen[str], tmp_path: Path
) -> None:
    family = psutil.Process(campaign.pid).children(recursive=True)
    heard = [
        socket.laddr.ip
        for each in [psutil.Process(campaign.pid), scheduler_of(campaign.pid), *workers_of(campaign)]
        for socket in each.net_connections("inet")
        if socket.status == psutil.CONN_LISTEN
    ]
    assert heard, "workers and their scheduler talk to each other"
    assert set(heard) == {"127.0.0.1"}, "nobody else on the network can"
    next(filter(makes_a_run, workers_of(campaign))).kill()
    code, out, err = runs.finish(campaign, WITHIN_S)
    assert code == 0, out + err
    assert err == ""
    assert "2 runs to make, 2 at once" in out
    together = [line for line in lines_of(tmp_path) if line.get("at_once") == 2]
    assert sorted(str(line["cell"]) for line in together) == ["control-quorum-of-two", "redlock"], "each once"
    last = {line["cell"]: line for line in lines_of(tmp_path)}
    for line in last.values():
        folder = tmp_path / "results" / "runs" / str(line["folder"])
        assert (folder / "verdict.json").is_file()
        assert "error" not in line
        alone = line.get("at_once", 1) == 1
        assert alone or not line["figures"].get("disturbed"), "disturbed ones were made again alone"  # type: ignore[attr-defined]
    begun = [path for path in (tmp_path / "results" / "runs").glob("2*") if path.is_dir()]
    assert len(begun) == len(lines_of(tmp_path)) + 1, "the run of the worker that was killed counts for nothing"
    assert becomes_true(lambda: all(map(is_gone, family)) and not runs.state_left(tmp_path), within_s=30)


@pytest.mark.parametrize("campaign", ["60s"], indirect=True)
def test_ctrl_c_takes_every_run_down_and_keeps_what_there_is(campaign: subprocess.Popen[str], tmp_path: Path) -> None:
    def children() -> list[psutil.Process]:
        return psutil.Process(campaign.pid).children(recursive=True)

    assert becomes_true(lambda: len(children()) > 20, within_s=WITHIN_S), "two runs with their servers and clients"
    family = children()
    trackers = list(filter(is_tracker, family))
    os.killpg(campaign.pid, signal.SIGINT)  # as a terminal does
    code, out, err = runs.finish(campaign, WITHIN_S)
    assert code == 2, out + err
    assert err == ""
    assert "interrupted; 0 runs of 2 made" in out
    assert [each for each in family if each not in trackers and not is_gone(each)] == []
    assert becomes_true(lambda: all(map(is_gone, trackers)), within_s=20)
    assert runs.state_left(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []
    assert "This campaign is not finished" in (tmp_path / "report" / "index.html").read_text()


def test_a_scheduler_of_our_own_that_is_killed_closes_the_client_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Then the campaign ends in one line; Dask itself would look for its scheduler for a minute, and tell of it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with local_cluster(1) as client:
        scheduler = scheduler_of(os.getpid())
        below = scheduler.children(recursive=True)
        assert list(tmp_path.iterdir())
        scheduler.kill()
        assert becomes_true(lambda: client.status == "closed", within_s=20)
    assert becomes_true(lambda: all(map(is_gone, below)) and not list(tmp_path.iterdir()), within_s=20)
    assert capfd.readouterr().err == ""


def test_a_worker_that_is_there_is_never_taken_for_gone() -> None:
    """Dask looks at its scheduler by itself as well, and keeps what it saw where we would read it."""
    with dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}), local_cluster(1) as client:
        assert [present for _ in range(300) if len(present := present_at(client) or {}) != 1] == []


def test_workers_of_our_own_do_not_watch_themselves() -> None:
    """What Dask spends on that is missing in the runs."""
    with local_cluster(1) as client:
        watched = client.run(lambda: dask.config.get("distributed.worker.profile.enabled"))
    assert set(watched.values()) == {False}
