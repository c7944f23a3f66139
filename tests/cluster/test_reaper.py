"""After SIGKILL of the harness, the reaper removes everything by itself, within seconds and without a command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from cluster.engine import connect
from cluster.engine_address import find_engine
from cluster.engine_sweep import RUN_LABEL, sweep_docker
from cluster.lifetime import RunState
from cluster.polling import becomes_true
from cluster.sweep import sweep
from tests.cluster.reapers import WITHIN_S, left_of, reaper_of

HARNESS = """
import sys, pathlib
from cluster.lifetime import RunState
from tests.specs import site_of, spec_of
backend, folder, disks = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3] or None
if backend == "process":
    from cluster.process import ProcessCluster as Cluster
else:
    from cluster.docker import DockerCluster as Cluster
state = RunState.create(folder.name, parent=folder.parent, site=site_of(backend))
print("coming up", flush=True)
spec = spec_of(["n1", "n2", "n3"], ["c1"], policy="rdb", disks=disks)
cluster = Cluster(spec, state, folder.parent.parent / "logs")
cluster.start()
cluster.nodes["n1"].pause()
print("up", flush=True)
sys.stdin.read()
cluster.stop()
state.close()
"""

ENGINE_WITHIN_S = 60.0
"""An engine that others keep busy takes its time for what the reaper asks of it."""
BACKENDS = ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The state folder of the run; its name must not be another test's, because processes are found by it."""
    return tmp_path / "state" / f"run-{os.getpid()}-{tmp_path.name}"


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start a harness in a session of its own and wait until it has printed a line."""
    started: list[subprocess.Popen[str]] = []

    def start(backend: str, until: str = "up", *, disks: str = "", code: str = HARNESS) -> subprocess.Popen[str]:
        harness = subprocess.Popen(
            [sys.executable, "-c", code, backend, folder, disks],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(harness)
        assert harness.stdout is not None
        assert until in (line.strip() for line in harness.stdout)
        return harness

    yield start
    for harness in started:
        harness.kill()
        harness.communicate()
    sweep([partial(sweep_docker, parent=folder.parent)], parent=folder.parent)


def everything_left(folder: Path, backend: str) -> list[str]:
    """What of the run is left, the reaper included."""
    left = left_of(folder)
    if backend == "docker":
        engine = connect(find_engine())
        filters: dict[str, str | list[str] | bool] = {"label": f"{RUN_LABEL}={folder.name}"}
        left += [str(each.name) for each in engine.containers.list(all=True, filters=filters, ignore_removed=True)]
        left += [str(each.name) for each in engine.networks.list(filters=filters)]
        engine.close()
    return left + (["reaper"] if reaper_of(folder) else [])


def all_gone(folder: Path, backend: str = "process") -> bool:
    within_s = WITHIN_S if backend == "process" else ENGINE_WITHIN_S
    return becomes_true(lambda: not everything_left(folder, backend), within_s=within_s, every_s=0.02)


@pytest.mark.parametrize("until", ["coming up", "up"])
def test_nothing_survives_a_killed_harness(start: Start, folder: Path, backend: str, until: str) -> None:
    harness = start(backend, until)
    assert everything_left(folder, backend)
    harness.kill()
    assert all_gone(folder, backend), everything_left(folder, backend)


def test_nothing_survives_although_the_state_folder_was_deleted(start: Start, folder: Path, backend: str) -> None:
    harness = start(backend)
    shutil.rmtree(folder)
    assert everything_left(folder, backend)
    harness.kill()
    assert all_gone(folder, backend), everything_left(folder, backend)


@pytest.mark.needs("engine")
@pytest.mark.parametrize("parts", [1, 3])
def test_a_container_that_the_engine_was_creating_at_that_moment_goes_too(
    start: Start, folder: Path, parts: int
) -> None:
    harness = start("docker", "coming up")
    assert becomes_true(lambda: len(everything_left(folder, "docker")) >= 2 + parts, within_s=60, every_s=0.001)
    harness.kill()
    assert all_gone(folder, "docker"), everything_left(folder, "docker")


@pytest.mark.needs("ext4")
@pytest.mark.parametrize("until", ["coming up", "up"])
def test_no_mount_and_no_loop_device_survives_a_killed_harness(
    start: Start, folder: Path, backend: str, until: str
) -> None:
    harness = start(backend, until, disks="ext4")
    if until == "up":
        assert [line for line in left_of(folder) if line.startswith("loop device")]
    harness.kill()
    assert all_gone(folder, backend), everything_left(folder, backend)


def test_a_harness_that_ends_by_itself_waits_for_its_reaper(start: Start, folder: Path) -> None:
    harness = start("process")
    assert reaper_of(folder) is not None
    harness.communicate("")
    assert everything_left(folder, "process") == []


def test_the_signals_that_stop_a_harness_do_not_stop_its_reaper(start: Start, folder: Path) -> None:
    harness = start("process")
    reaper = reaper_of(folder)
    assert reaper is not None
    assert os.getsid(reaper.pid) != os.getsid(harness.pid), "a signal of the terminal would hit it"
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        reaper.send_signal(number)
    harness.kill()
    assert all_gone(folder), everything_left(folder, "process")


WITH_A_CHILD_THAT_KEEPS_EVERYTHING_OPEN = HARNESS.replace(
    'print("up"',
    'import subprocess; subprocess.Popen(["sleep", "600"], close_fds=False, start_new_session=True)\nprint("up"',
)


def test_no_child_of_the_harness_keeps_the_pipe_open(start: Start, folder: Path) -> None:
    harness = start("process", code=WITH_A_CHILD_THAT_KEEPS_EVERYTHING_OPEN)
    (stranger,) = (each for each in psutil.Process(harness.pid).children() if each.name() == "sleep")
    try:
        harness.kill()
        assert all_gone(folder), everything_left(folder, "process")
        assert stranger.is_running(), "it does not carry the mark, so nobody ends it"
    finally:
        stranger.kill()


def test_a_reaper_and_sweeps_at_the_same_time_leave_nothing_and_disturb_nobody(start: Start, folder: Path) -> None:
    harness = start("process")
    with RunState.create("living", parent=folder.parent) as living:
        harness.kill()

        def gone() -> bool:
            sweep(parent=folder.parent)
            return not everything_left(folder, "process")

        assert becomes_true(gone, within_s=WITHIN_S)
        assert living.path.exists()
        assert reaper_of(living.path) is not None


def test_a_reaper_loads_nothing_that_takes_long(tmp_path: Path) -> None:
    """It has seconds, and on a busy machine every tenth of a second of work is one."""
    work = "import sys, pathlib, cluster.reap as it; it.main(pathlib.Path(sys.argv[1])); print(*sys.modules)"
    work = f"import cluster.backends.docker, cluster.engine_sweep; {work}"  # what a run in containers needs besides
    (tmp_path / "state").mkdir(mode=0o700)
    done = subprocess.run(
        [sys.executable, "-c", work, tmp_path / "state" / "dead"], capture_output=True, text=True, check=True
    )
    assert {"cluster.backend_registry", "cluster.disk"} <= set(done.stdout.split())
    assert not {"docker", "requests", "urllib3", "numpy", "redis", "cluster.programs"} & set(done.stdout.split())


def test_a_run_that_could_not_be_created_is_not_reaped(folder: Path) -> None:
    with RunState.create(folder.name, parent=folder.parent) as state:
        own = psutil.Process()
        before = {child.pid for child in own.children()}
        with pytest.raises(Exception, match="temporary folder"):
            RunState.create(folder.name, parent=folder.parent)
        assert {child.pid for child in own.children()} == before
        assert state.path.exists()
