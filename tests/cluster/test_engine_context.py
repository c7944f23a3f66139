"""A run stays with the engine at which it began, whatever the user does to the Docker contexts meanwhile; and whoever
cleans up after it asks that engine."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cluster.engine import connect
from cluster.engine_address import DEFAULT_SOCKET, Engine, find_engine
from cluster.engine_sweep import RUN_LABEL, sweep_docker
from cluster.polling import becomes_true
from cluster.sweep import sweep
from fencepost.errors import BrokenEnvironmentError
from tests.cluster.engines import second_way, use_context, write_context
from tests.cluster.reapers import kill_reaper

pytestmark = pytest.mark.needs("engine")

WITHIN_S = 60.0
"""An engine that others keep busy takes its time."""

HARNESS = """
import sys, pathlib
from cluster.docker import DockerCluster
from cluster.engine_address import find_engine
from cluster.lifetime import RunState
from tests.specs import spec_of
folder = pathlib.Path(sys.argv[1])
state = RunState.create(folder.name, parent=folder.parent, site=find_engine().site)
cluster = DockerCluster(spec_of(["n1"], ["c1"]), state, folder.parent.parent / "logs")
cluster.start()
print("up", flush=True)
sys.stdin.read()
cluster.nodes["n1"].kill()
cluster.nodes["n1"].start()
cluster.stop()
state.close()
"""


@pytest.fixture
def real() -> Engine:
    """The engine of this machine, before the test changes the contexts."""
    return find_engine()


@pytest.fixture
def asked(real: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the engine is asked by way of the context `second`, which is the current one."""
    config = tmp_path / "config"
    with second_way(tmp_path / "second.sock", real) as asked:
        write_context(config, "second", f"unix://{tmp_path}/second.sock")
        use_context(config, "second")
        monkeypatch.setenv("DOCKER_CONFIG", str(config))
        monkeypatch.delenv("DOCKER_HOST", raising=False)
        monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
        yield asked


@pytest.fixture
def harness(asked: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A harness whose cluster is up in the context `second`."""
    started = subprocess.Popen(
        [sys.executable, "-c", HARNESS, folder, "harness"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "up\n"
    assert any("/containers/create" in line for line in asked)
    yield started
    started.kill()
    started.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / f"context-{tmp_path.name}"


def held(engine: Engine, folder: Path) -> list[str]:
    """What the engine has of the run."""
    client = connect(engine)
    filters: dict[str, str | list[str] | bool] = {"label": f"{RUN_LABEL}={folder.name}"}
    names = [str(each.name) for each in client.containers.list(all=True, filters=filters, ignore_removed=True)]
    names += [str(each.name) for each in client.networks.list(filters=filters)]
    client.close()
    return names


def deletions(asked: list[str]) -> int:
    return sum(line.startswith("DELETE ") for line in asked)


def leave_the_context(tmp_path: Path) -> None:
    """The user chooses another engine, which does not answer."""
    write_context(tmp_path / "config", "other", f"unix://{tmp_path}/other.sock")
    use_context(tmp_path / "config", "other")


def test_a_run_ends_in_the_engine_in_which_it_began(
    real: Engine, asked: list[str], harness: subprocess.Popen[str], folder: Path, tmp_path: Path
) -> None:
    assert len(held(real, folder)) == 4
    leave_the_context(tmp_path)
    harness.communicate("")
    assert harness.returncode == 0
    assert held(real, folder) == []
    assert deletions(asked) >= 4
    assert not folder.exists()


def test_a_reaper_asks_the_engine_of_its_run(
    real: Engine, asked: list[str], harness: subprocess.Popen[str], folder: Path, tmp_path: Path
) -> None:
    leave_the_context(tmp_path)
    harness.send_signal(signal.SIGKILL)
    assert becomes_true(lambda: held(real, folder) == [] and not folder.exists(), within_s=WITHIN_S, every_s=0.1)
    assert deletions(asked) >= 4


def test_a_sweep_asks_the_engine_of_a_dead_run(
    real: Engine, asked: list[str], harness: subprocess.Popen[str], folder: Path, tmp_path: Path
) -> None:
    leave_the_context(tmp_path)
    kill_reaper(folder)
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    before = deletions(asked)
    swept = sweep([partial(sweep_docker, parent=folder.parent)], parent=folder.parent)
    assert len(swept.others) == 4
    assert all(
        line.endswith(f"from the Docker engine at unix://{tmp_path}/second.sock (context second)")
        for line in swept.others
    )
    assert (swept.stuck, held(real, folder), deletions(asked) - before >= 4) == ((), [], True)


def test_the_folder_of_a_dead_run_stays_as_long_as_its_engine_does_not_answer(
    real: Engine, harness: subprocess.Popen[str], folder: Path, tmp_path: Path
) -> None:
    kill_reaper(folder)
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    way, away = tmp_path / "second.sock", tmp_path / "away.sock"
    way.rename(away)
    leave_the_context(tmp_path)
    sweeper = partial(sweep_docker, parent=folder.parent)
    try:
        swept = sweep([sweeper], parent=folder.parent)
        (line,) = swept.stuck
        assert f"at unix://{way} (context second)" in line
        assert f"where {folder} had containers; start it, or delete that folder" in line
        assert folder.exists()
        assert len(held(real, folder)) == 4
    finally:
        away.rename(way)
    assert len(sweep([sweeper], parent=folder.parent).others) == 4
    assert held(real, folder) == []
    assert not folder.exists()


def test_what_a_harness_could_not_remove_its_reaper_removes(
    real: Engine, harness: subprocess.Popen[str], folder: Path, tmp_path: Path
) -> None:
    """The engine is away when the run ends, and comes back."""
    way, away = tmp_path / "second.sock", tmp_path / "away.sock"
    way.rename(away)
    _, _ = harness.communicate("")
    assert harness.returncode != 0
    assert len(held(real, folder)) == 4
    away.rename(way)
    assert becomes_true(lambda: held(real, folder) == [] and not folder.exists(), within_s=WITHIN_S, every_s=0.1)


def test_an_engine_at_the_default_socket_is_not_asked_for_a_run_elsewhere(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_engine().host != DEFAULT_SOCKET
    connect(find_engine()).close()
    assert asked
    monkeypatch.setenv("DOCKER_CONTEXT", "gone")
    with pytest.raises(BrokenEnvironmentError, match="'gone', which does not exist"):
        find_engine()
