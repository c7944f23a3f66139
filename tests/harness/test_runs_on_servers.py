"""Runs whose nodes and resource choose their servers independently, on both kinds of cluster."""

from __future__ import annotations

import hashlib
import json
from itertools import product
from pathlib import Path

import pytest

from cluster.programs import find_server
from harness.campaign.grid import from_axes
from harness.options import parse_run
from harness.store.run_folder import RunFolder
from tests.harness import runs

BACKENDS = ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))]


@pytest.mark.needs("valkey")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("nodes", "resource"), [("valkey", "redis"), ("redis", "valkey")])
def test_nodes_and_resource_run_on_different_servers(nodes: str, resource: str, backend: str, tmp_path: Path) -> None:
    chosen = ["--server", nodes, "--resource-server", resource]
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--nemesis", "partition+crash", *chosen, cluster=backend))
    assert code == 0, out + err
    folder, said = runs.only_run(tmp_path), " ".join(out.split())
    cluster = json.loads((folder / "environment.json").read_text())["cluster"]
    assert [cluster[part]["name"] for part in ("server", "resource_server")] == [nodes, resource]
    of_nodes, of_resource = (f"{name} {find_server(name).version}" for name in (nodes, resource))
    how = {"process": "as processes", "docker": "in containers"}[backend]
    assert f"5 × {of_nodes} {how}, resource on {of_resource}, 3 clients" in said
    assert f"resource on {of_resource}" in (folder / "report.html").read_text()
    assert f"resource on {resource} {cluster['resource_server']['version']}" in said
    assert "without an owner" in said, "watched"
    config = RunFolder.open(folder).read_config()
    assert (config.server, config.resource_server) == (nodes, resource)
    changed = [word for word in ("--server valkey", "--resource-server valkey") if word in said]
    assert changed == (["--server valkey"] if nodes == "valkey" else ["--resource-server valkey"]), "in the replay line"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", ["{path}", "redis={path}"])
def test_a_program_named_by_its_path_can_be_the_server_of_both(form: str, backend: str, tmp_path: Path) -> None:
    """That very file, also in containers; and every account of the run says which one."""
    path = tmp_path / "my-redis"
    path.write_bytes(find_server("redis").path.read_bytes() + b"of my own")
    path.chmod(0o755)
    choice = form.format(path=path)
    given = runs.short_run("--nemesis", "none", "--server", choice, "--resource-server", choice, cluster=backend)
    code, out, err = runs.fencepost(tmp_path, *given)
    assert code == 0, out + err
    folder = runs.only_run(tmp_path)
    cluster = json.loads((folder / "environment.json").read_text())["cluster"]
    for part in ("server", "resource_server"):
        assert (cluster[part]["name"], cluster[part]["path"]) == ("redis", str(path))
        assert cluster[part]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert f"({path})" in (folder / "report.html").read_text()
    assert f"--server {choice}" in " ".join(out.split()), "in the replay line"


def test_an_image_needs_a_container(tmp_path: Path) -> None:
    given = runs.short_run("--server", "redis=image:redis:7.4", cluster="process")
    code, out, err = runs.fencepost(tmp_path, *given)
    assert (code, out, err.count("\n")) == (254, "", 1)
    assert "the image redis:7.4 needs a container; use --cluster docker" in err


@pytest.mark.needs("engine")
def test_an_image_is_named_and_used_as_it_is(tmp_path: Path) -> None:
    """One that this machine's engine has; the default never looks at it."""
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--nemesis", "none", cluster="docker"))
    assert code == 0, out + err
    image = json.loads((runs.only_run(tmp_path) / "environment.json").read_text())["cluster"]["server"]["image"]
    there = tmp_path / "there"
    there.mkdir()
    given = runs.short_run("--nemesis", "none", "--server", f"redis=image:{image}", cluster="docker")
    code, out, err = runs.fencepost(there, *given)
    assert code == 0, out + err
    told = json.loads((runs.only_run(there) / "environment.json").read_text())["cluster"]["server"]
    assert (told["image"], told["is_named"], told["version"]) == (image, True, find_server("redis").version)


def test_a_resource_that_cannot_run_is_one_line_before_anything_starts(tmp_path: Path) -> None:
    for wrong, said in (
        ("memcached", "--resource-server 'memcached' is not known"),
        ("/bin/true", "that is no etcd, redis-server or"),
    ):
        code, _, err = runs.fencepost(tmp_path, *runs.short_run("--resource-server", wrong))
        assert (code, err.count("\n")) == (254, 1), err
        assert said in err
    assert not (tmp_path / "results").exists()


def test_a_campaign_can_vary_both() -> None:
    grid = from_axes(["server=redis,valkey", "resource-server=redis,valkey"], 1, 1, {})
    configs = [parse_run(grid.words(name, 1)) for name in grid.cells]
    both = ("redis", "valkey")
    assert {(config.server, config.resource_server) for config in configs} == set(product(both, both))
