"""A real world for faults: five redis-servers, ten clients' links, three client processes that go in and out."""

from __future__ import annotations

import mmap
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cluster.lifetime import RunState
from cluster.polling import becomes_true
from cluster.process import ProcessCluster
from nemesis.base import Step, Topology, World
from tests.nemesis.fakes import topology
from tests.specs import spec_of

IN_AND_OUT = """
import mmap, sys, time
with open(sys.argv[1], "r+b") as file:
    flag = mmap.mmap(file.fileno(), 1)
while True:
    flag[0] = 1
    time.sleep(0.005)
    flag[0] = 0
    time.sleep(0.005)
"""


class ProcessClient:
    """`nemesis.base.Client` on a process that is inside half of the time, and shows it in a byte of a mapped file."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._path = folder / name
        self._path.write_bytes(b"\0")
        with self._path.open("r+b") as file:
            self._flag = mmap.mmap(file.fileno(), 1)
        self.restart()

    def is_at(self, step: Step) -> bool:
        return self.is_alive() and self._flag[0] == (step == "inside")

    def keys_at(self, step: Step) -> set[int]:
        return {1} if self.is_at(step) else set()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        while psutil.Process(self._process.pid).status() != psutil.STATUS_STOPPED:
            time.sleep(0.0005)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def is_paused(self) -> bool:
        return self.is_alive() and psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=30)

    def restart(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", IN_AND_OUT, str(self._path)])

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def goes_in_and_out(self) -> bool:
        """Whether it is seen both inside and outside, once its interpreter has started."""
        seen = set[int]()

        def was_both() -> bool:
            seen.add(self._flag[0])
            return len(seen) == 2

        return becomes_true(was_both, within_s=30)


@pytest.fixture(scope="module")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProcessCluster, Topology]]:
    folder = tmp_path_factory.mktemp("nemesis")
    where = topology(clients=10, nodes=5, ttl_ms=1_000)
    with RunState.create(parent=folder / "state") as state:
        cluster = ProcessCluster(spec_of(where.nodes, where.clients), state, folder / "logs")
        cluster.start()
        try:
            yield cluster, where
        finally:
            cluster.stop()


@pytest.fixture
def real_world(real_cluster: tuple[ProcessCluster, Topology]) -> Iterator[World]:
    """No clients, all links. Each test finds every node up and every link whole."""
    cluster, where = real_cluster
    yield World(cluster, {}, where)
    cluster.heal()
    for node in cluster.nodes.values():
        node.start()
        node.resume()


@pytest.fixture(scope="module")
def powered_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Three nodes on disks whose power can be cut; what they acknowledge is synced."""
    folder = tmp_path_factory.mktemp("power")
    where = topology(clients=2, nodes=3, ttl_ms=1_000)
    with RunState.create(parent=folder / "state") as state:
        spec = spec_of(where.nodes, where.clients, policy="aof-always", disks="ext4")
        cluster = ProcessCluster(spec, state, folder / "logs")
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture
def real_clients(tmp_path: Path) -> Iterator[dict[str, ProcessClient]]:
    clients = {name: ProcessClient(name, tmp_path) for name in ("c1", "c2", "c3")}
    try:
        assert all(client.goes_in_and_out() for client in clients.values())
        yield clients
    finally:
        for client in clients.values():
            client.kill()
