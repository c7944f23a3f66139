"""Whether an engine can host a cluster is found out by a small one, once."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

import cluster.docker
import cluster.images
from cluster import engine_trial
from cluster.backend_registry import choose_site
from cluster.engine import connect
from cluster.engine_address import Engine, NoEngineError, find_engine
from cluster.engine_sweep import RUN_LABEL, STATE_LABEL
from cluster.engine_trial import UnfitEngineError, check_engine, engine_facts, try_engine
from cluster.images import Recipe
from tests.cluster.engines import second_way
from tests.cluster.test_engine_http import Answers, engine
from tests.specs import spec_of

ABLE = {"ID": "A", "ServerVersion": "1", "SecurityOptions": ["name=seccomp,profile=default"]}


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No trial is remembered, and the state folders of the trials are the test's own."""
    programs = spec_of(("n1",), ("c1",))
    monkeypatch.setattr("tests.specs._PROGRAMS", {
        "server": lambda: programs.server,
        "resource_server": lambda: programs.resource_server,
        "toxiproxy": lambda: programs.toxiproxy,
    })  # fmt: skip
    monkeypatch.setattr(engine_trial, "_failed", {})
    monkeypatch.setattr(engine_trial, "tools_folder", lambda: tmp_path / "tools")
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def answers(info: dict[str, Any]) -> Answers:
    refused = (500, b'{"message": "no import today"}')
    version = (200, b'{"ApiVersion": "1.41", "Version": "1"}')
    return {
        "/info": (200, json.dumps(info).encode()),
        "/version": version,
        "/containers/json": (200, b"[]"),
        "/networks": (200, b"[]"),
        "": refused,
    }


def test_why_an_engine_is_unfit_names_it_the_reason_and_what_to_do() -> None:
    hidden = f'invalid mount config for type "bind": {engine_trial.temporary_folder()}/x does not exist'
    error = UnfitEngineError(Engine("unix:///run/user/1/docker.sock", "second"), engine_trial._why(hidden))
    assert str(error) == (
        "the Docker engine at unix:///run/user/1/docker.sock (context second) cannot host a cluster: it does not see "
        f"the folder for temporary files; set TMPDIR to one that it sees ({hidden}); use another engine (`docker "
        "context use`, DOCKER_HOST), or --cluster process"
    )
    assert "set network_backend to netavark" in engine_trial._why("failed to parse gateway ip <nil>")


@pytest.mark.parametrize(
    "says", [{"SecurityOptions": ["name=seccomp", "name=rootless"]}, {"Rootless": True}], ids=["Docker", "Podman"]
)
def test_a_rootless_engine_is_refused_by_what_it_says_of_itself(
    says: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine(answers({**ABLE, **says})) as (port, asked):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        with pytest.raises(UnfitEngineError, match="rootless, and its containers have a network of their own"):
            check_engine(find_engine(), spec_of(("n1",), ("c1",)))
    assert [line.split()[:2] for line in asked] == [["GET", "/info"]]


def test_an_engine_that_refuses_what_a_run_needs_is_tried_once_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` takes processes and says why, a demanded `docker` is an error."""
    spec = spec_of(("n1",), ("c1",))
    with engine(answers(ABLE)) as (port, asked):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        for _ in range(2):
            site = choose_site("auto", spec)
            assert site.backend == "process"
            assert re.match(
                rf"the Docker engine at tcp://127\.0\.0\.1:{port} cannot host a cluster: .*no import today",
                str(site.passed_over),
            )
        tries = [line for line in asked if "/images/" in line]
        assert tries
        with pytest.raises(UnfitEngineError, match=r"no import today.*or --cluster process"):
            choose_site("docker", spec)
        assert [line for line in asked if "/images/" in line] == tries


@pytest.mark.parametrize(("body", "words"), [(b'{"message": "API version 1.12 is too old"}', "too old"), (b"[]", "")])
def test_an_engine_that_tells_nothing_of_itself_is_unfit(
    body: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine({"/info": (400 if words else 200, body)}) as (port, _):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        with pytest.raises(UnfitEngineError, match=words or "does not tell"):
            check_engine(find_engine(), spec_of(("n1",), ("c1",)))


def test_an_interface_that_is_too_old_for_the_sdk_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with engine({"/version": (200, b'{"ApiVersion": "1.12"}')}) as (port, _):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        with pytest.raises(NoEngineError, match=r"API versions below 1\.\d+ are no longer supported") as raised:
            connect(find_engine())
        assert "\n" not in str(raised.value)


def test_an_engine_behind_ssh_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://user@127.0.0.1")
    spec = spec_of(("n1",), ("c1",))
    with pytest.raises(NoEngineError, match=r"leads to another machine.*name an engine of this machine"):
        choose_site("docker", spec)
    assert "leads to another machine" in str(choose_site("auto", spec).passed_over)


def left_of(folder: Path) -> list[str]:
    """The containers, running or not, of trials with their temporary files in this folder."""
    client = connect(find_engine())
    labelled: dict[str, str | list[str] | bool] = {"label": STATE_LABEL}
    found = client.containers.list(all=True, filters=labelled, ignore_removed=True)
    client.close()
    return [str(each.name) for each in found if each.labels[STATE_LABEL].startswith(str(folder))]


@pytest.mark.needs("engine")
def test_a_real_engine_passes_is_remembered_and_left_as_it_was(tmp_path: Path) -> None:
    spec = spec_of(("n1", "n2"), ("c1", "c2"))
    real = find_engine()
    with second_way(tmp_path / "way.sock", real) as asked:
        way = Engine(f"unix://{tmp_path}/way.sock")
        check_engine(way, spec)
        created = [line for line in asked if "POST" in line and "/containers/create" in line]
        assert len(created) == 3, "a node, the resource, the proxy"
        asked.clear()
        check_engine(way, spec)
        assert [line.split()[:2] for line in asked] == [["GET", "/info"]]
    assert left_of(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("fencepost-")] == []


@pytest.mark.needs("engine")
def test_a_trial_that_the_engine_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its containers are pointed at a folder that it does not have, as with an engine from a snap. It does not have the
    server's image before, either."""
    real, spec = find_engine(), spec_of(("n1",), ("c1",))
    other = tmp_path / "redis-server"
    other.write_bytes(spec.server.path.read_bytes() + str(tmp_path).encode())
    other.chmod(0o755)
    program = replace(spec.server, path=other)
    spec = replace(spec, server=program, resource_server=program)
    built: list[str] = []
    build, shared = cluster.images._build, cluster.docker._shared

    def built_now(client: DockerClient, files: Mapping[str, bytes], reference: str, recipe: Recipe) -> Any:
        built.append(reference)
        return build(client, files, reference, recipe)

    monkeypatch.setattr("cluster.images._build", built_now)
    monkeypatch.setattr("cluster.docker._shared", lambda folder, inside: shared(folder / "not seen", inside))
    with pytest.raises(UnfitEngineError, match="does not see the folder for temporary files; set TMPDIR"):
        try_engine(real, engine_facts(real), spec)
    assert left_of(tmp_path) == []
    assert any(reference.startswith("fencepost/redis:") for reference in built)
    client = connect(real)
    assert [each for each in built if client.images.list(each)] == []
    client.close()


@pytest.mark.needs("engine")
def test_a_proxy_for_the_web_is_not_asked_for_an_engine_with_a_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = find_engine()
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with second_way(("127.0.0.1", port), real) as asked:
        client = connect(Engine(f"tcp://127.0.0.1:{port}"))
        assert client.containers.list(filters={"label": RUN_LABEL}, ignore_removed=True) is not None
        client.close()
    assert any("/containers/json" in line for line in asked)
