"""Runs whose nodes and resource choose their servers independently, on both kinds of cluster."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import msgspec
import pytest

from cluster.programs import find_server
from harness.campaign.grid import from_axes
from harness.config import RunConfig
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
    if backend == "process":  # a published image of Redis has another version
        assert f"5 × {of_nodes} as processes, resource on {of_resource}, 3 clients" in said
        assert f"resource on {of_resource}" in (folder / "report.html").read_text()
    assert f"resource on {resource} {cluster['resource_server']['version']}" in said
    assert "none was left on a node without an owner" in said or "without an owner on a node" in said, "watched"
    config = RunFolder.open(folder).read_config()
    assert (config.server, config.resource_server) == (nodes, resource)
    changed = [word for word in ("--server valkey", "--resource-server valkey") if word in said]
    assert changed == (["--server valkey"] if nodes == "valkey" else ["--resource-server valkey"]), "in the replay line"


def test_a_program_named_by_its_path_can_be_the_server_of_both(tmp_path: Path) -> None:
    path = str(find_server("redis").path)
    given = runs.short_run("--nemesis", "none", "--server", path, "--resource-server", path)
    code, out, err = runs.fencepost(tmp_path, *given)
    assert code == 0, out + err
    environment = json.loads((runs.only_run(tmp_path) / "environment.json").read_text())
    for part in ("server", "resource_server"):
        assert (environment["cluster"][part]["name"], environment["cluster"][part]["path"]) == ("redis", path)


def test_a_resource_that_cannot_run_is_one_line_before_anything_starts(tmp_path: Path) -> None:
    for wrong, said in (("memcached", "--resource-server 'memcached' is not known"), ("/bin/true", "that is no redis")):
        code, _, err = runs.fencepost(tmp_path, *runs.short_run("--resource-server", wrong))
        assert (code, err.count("\n")) == (254, 1), err
        assert said in err
    assert not (tmp_path / "results").exists()


def test_in_a_run_that_is_older_than_the_option_the_resource_ran_what_the_nodes_ran(tmp_path: Path) -> None:
    config = RunConfig(seed=7, server="valkey")
    folder = RunFolder.create(tmp_path, config)
    assert folder.read_config().resource_server == "redis"
    older = msgspec.to_builtins(config) | {"schema_version": 1}
    del older["resource_server"]
    (folder.path / "config.json").write_bytes(msgspec.json.encode(older))
    assert folder.read_config().resource_server == "valkey"


def test_a_campaign_can_vary_both() -> None:
    grid = from_axes(["server=redis,valkey", "resource-server=redis,valkey"], 1, 1, {})
    configs = [parse_run(grid.words(name, 1)) for name in grid.cells]
    both = ("redis", "valkey")
    assert {(config.server, config.resource_server) for config in configs} == set(product(both, both))
