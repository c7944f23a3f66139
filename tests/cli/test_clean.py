"""`fencepost clean` says what an engine has of others, and `--all` removes what is dead."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from docker import DockerClient

from cluster.engine import connect
from cluster.engine_address import find_engine
from cluster.engine_runs import OWNER_LABEL, held_runs, remove_images, this_owner
from cluster.engine_sweep import RUN_LABEL, STATE_LABEL
from cluster.lifetime import RunState
from harness.cli.main import run
from tests.cluster.test_engine_http import engine

pytestmark = pytest.mark.needs("engine")
Leave = Callable[..., tuple[str, Path]]


@pytest.fixture
def client() -> Iterator[DockerClient]:
    one = connect(find_engine())
    yield one
    one.close()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "mine"))


@pytest.fixture
def leave(client: DockerClient, tmp_path: Path) -> Iterator[Leave]:
    """Leave a network of a run in the engine; its id and its state folder, which need not exist."""
    made = []

    def leave_one(state: Path | None = None, owner: str | None = None) -> tuple[str, Path]:
        run_id = f"left-{uuid4().hex[:8]}"
        state = state or tmp_path / f"other/fencepost-{os.getuid()}" / run_id
        labels = {RUN_LABEL: run_id, STATE_LABEL: str(state)} | ({OWNER_LABEL: owner} if owner else {})
        made.append(client.networks.create(f"fencepost-{run_id}", internal=True, labels=labels))
        return run_id, state

    yield leave_one
    ours = {network.id for network in client.networks.list()}
    for network in made:
        if network.id in ours:
            network.remove()


def networks(client: DockerClient, run_id: str) -> int:
    return len(client.networks.list(filters={"label": f"{RUN_LABEL}={run_id}"}))


def cleaned(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """What it says; images and what else is in the engine are none of these tests' business."""
    assert run(["clean", *arguments]) == 0
    return capfd.readouterr().out.splitlines()


def test_what_dead_runs_with_another_tmpdir_left_is_told_and_stays_until_all_is_asked_for(
    client: DockerClient, leave: Leave, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.engine_runs.remove_images", lambda _: [])
    run_id, state = leave()
    said = cleaned(capfd)
    assert (
        f"the Docker engine has 1 network of the run {run_id} with its temporary files in {state.parent}; that run is "
        "dead: `fencepost clean --all` removes them"
    ) in said
    assert "no resources were left by crashed runs" not in said
    assert networks(client, run_id) == 1
    assert f"removed network fencepost-{run_id} from the Docker engine" in _only(capfd, monkeypatch, run_id)
    assert networks(client, run_id) == 0


def _only(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, run_id: str) -> list[str]:
    """What `clean --all` says, with nothing but this run in the engine: other tests may have some there."""
    monkeypatch.setattr(
        "cluster.engine_runs.held_runs", lambda engine: [each for each in held_runs(engine) if each.run_id == run_id]
    )
    return cleaned(capfd, "--all")


def test_a_run_with_another_tmpdir_that_is_alive_is_never_touched(
    client: DockerClient,
    leave: Leave,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    parent = tmp_path / f"other/fencepost-{os.getuid()}"
    (tmp_path / "other").mkdir()
    with RunState.create(parent=parent) as alive:
        run_id, _ = leave(alive.path)
        said = _only(capfd, monkeypatch, run_id)
        assert any(line.endswith("; that run is alive") for line in said)
        (kept,) = (line for line in said if line.startswith("images stay"))
        assert kept.endswith(run_id)
        assert networks(client, run_id) == 1


def test_without_its_folder_a_run_is_as_alive_as_the_process_that_made_it(leave: Leave) -> None:
    boot, namespace, process, began = this_owner().split()
    lives = {
        leave(None, owner)[0]: life
        for owner, life in (
            (f"{boot} {namespace} {process} {began}", "alive"),
            (f"{boot} {namespace} {process} 1", "dead"),
            (f"another-boot {namespace} {process} {began}", "dead"),
            (f"{boot} pid:[1] {process} {began}", "unknown"),
            (None, "dead"),
        )
    }
    found = {each.run_id: (each.life, each.networks) for each in held_runs(find_engine()) if each.run_id in lives}
    assert found == {run_id: (life, 1) for run_id, life in lives.items()}


def test_all_that_a_dead_run_elsewhere_left_goes_with_its_folder(
    client: DockerClient,
    leave: Leave,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("cluster.engine_runs.remove_images", lambda _: [])
    parent = tmp_path / f"other/fencepost-{os.getuid()}"
    parent.mkdir(parents=True, mode=0o700)
    (parent / "dead").mkdir()
    run_id, _ = leave(parent / "dead")
    _only(capfd, monkeypatch, run_id)
    assert networks(client, run_id) == 0
    assert not parent.exists()


def test_all_images_go_that_no_container_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    images = [
        {"Id": "i1", "RepoTags": ["fencepost/redis:1"]},
        {"Id": "i2", "RepoTags": ["fencepost/redis:2"]},
        {"Id": "i3", "RepoTags": None},
    ]
    answers = {
        "/containers/json": (200, json.dumps([{"ImageID": "i2"}]).encode()),
        "/images/json": (200, json.dumps(images).encode()),
        "/images/i3": (409, b'{"message": "in use by a run that has just begun"}'),
        "": (200, b"[]"),
    }
    with engine(answers) as (port, asked):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        assert remove_images(find_engine(), keep=["i1", "i3"]) == []
        assert not any("DELETE" in line for line in asked)
        asked.clear()
        assert remove_images(find_engine()) == ["removed image fencepost/redis:1"]
    assert [line for line in asked if "DELETE" in line] == ["DELETE /images/fencepost/redis:1", "DELETE /images/i3"]
    (listed,) = [line for line in asked if "/images/json" in line]
    assert "fencepost.program" in listed, "and no image of others is asked for"


def test_images_stay_where_they_are_unless_all_is_asked_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("cluster.engine_runs.remove_images", asked.append)
    cleaned(capfd)
    assert asked == []
