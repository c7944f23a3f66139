"""Servers whose files are cut short while they are down: what they say when they come back, in both clusters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster import resp
from cluster.base import Node
from cluster.data_files import PARTS, FolderStorage, forget, truncate
from cluster.docker import DockerCluster
from cluster.lifetime import RunState
from cluster.persistence import Policy
from cluster.process import ProcessCluster
from cluster.servers.redis import KEPT
from fencepost.errors import BrokenEnvironmentError
from tests.specs import site_of, spec_of

KEYS = [f"k{number}" for number in range(100)]
HALF = PARTS // 2


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.needs("engine"))])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def node_of(backend: str, policy: Policy, folder: Path, stack: ExitStack) -> Node:
    """The only node of a cluster."""
    make = ProcessCluster if backend == "process" else DockerCluster
    state = stack.enter_context(RunState.create(parent=folder / "state", site=site_of(backend)))
    cluster = make(spec_of(["n1"], [], policy=policy), state, folder / "logs")
    stack.callback(cluster.stop)
    cluster.start()
    return cluster.nodes["n1"]


def fill(node: Node) -> None:
    assert set(resp.ask(node.address, *(("SET", key, "x" * 50) for key in KEYS), timeout_ms=5_000)) == {"OK"}


def kept(node: Node) -> list[bool]:
    (values,) = resp.ask(node.address, ("MGET", *KEYS), timeout_ms=5_000)
    assert isinstance(values, list)
    return [value is not None for value in values]


def test_a_server_reads_a_cut_append_only_file_as_far_as_it_goes(
    backend: str, tmp_path: Path, stack: ExitStack
) -> None:
    node = node_of(backend, "aof-always", tmp_path, stack)
    fill(node)
    node.kill()
    said = node.truncate(HALF)
    assert "aof cut from" in said
    assert node.truncate(HALF) == said, "it is cut once"
    node.start()
    there = kept(node)
    assert 30 < sum(there) < 70
    assert there == sorted(there, reverse=True), "what is lost is the end of what was written"


def test_a_server_refuses_a_cut_snapshot_and_comes_back_empty_once_it_is_set_aside(
    backend: str, tmp_path: Path, stack: ExitStack
) -> None:
    node = node_of(backend, "rdb", tmp_path, stack)
    fill(node)
    node.stop()
    assert node.truncate(HALF).startswith("dump.rdb cut from")
    with pytest.raises(BrokenEnvironmentError, match="n1 ended at once"):
        node.start()
    assert node.was_taken_down()
    node.forget()
    node.start()
    assert not any(kept(node))
    fill(node)
    node.stop()
    node.start()
    assert all(kept(node)), "what it keeps from then on is whole"


def test_an_append_only_server_that_forgets_comes_back_empty(backend: str, tmp_path: Path, stack: ExitStack) -> None:
    node = node_of(backend, "aof-always", tmp_path, stack)
    fill(node)
    node.kill()
    node.forget()
    node.start()
    assert not any(kept(node))


def test_a_server_that_keeps_nothing_has_nothing_to_cut(backend: str, tmp_path: Path, stack: ExitStack) -> None:
    node = node_of(backend, "none", tmp_path, stack)
    fill(node)
    node.kill()
    assert node.truncate(HALF) == ""


def test_files_of_a_server_that_runs_are_left_alone(backend: str, tmp_path: Path, stack: ExitStack) -> None:
    node = node_of(backend, "aof-always", tmp_path, stack)
    fill(node)
    assert node.truncate(HALF) == ""
    node.forget()
    node.kill()
    node.start()
    assert all(kept(node))


def test_the_largest_file_with_keys_is_cut_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "appendonlydir").mkdir()
    files = {
        "appendonlydir/a.1.base.rdb": b"b" * 88,
        "appendonlydir/a.1.incr.aof": b"i" * 1_000,
        "appendonlydir/a.manifest": b"m" * 5_000,
        "temp-12.rdb": b"t" * 9_000,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert truncate(FolderStorage(tmp_path), KEPT, PARTS // 4) == "a.1.incr.aof cut from 1,000 to 250 bytes"
    assert FolderStorage(tmp_path).read() == files | {"appendonlydir/a.1.incr.aof": b"i" * 250}
    forget(FolderStorage(tmp_path), KEPT)
    left = FolderStorage(tmp_path).read()
    assert left["appendonlydir/a.1.incr.aof"] == b""
    assert left["appendonlydir/a.1.base.rdb"].startswith(b"REDIS")
    assert (left["appendonlydir/a.manifest"], left["temp-12.rdb"]) == (b"m" * 5_000, b"t" * 9_000)
