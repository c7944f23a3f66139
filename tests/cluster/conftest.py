"""Clusters of real processes for the tests; everything they leave behind would be found by a sweep."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cluster.address import Address
from cluster.engine_address import find_engine
from cluster.key_events import KeyEventStream
from cluster.lifetime import RunState
from cluster.process import ProcessCluster
from cluster.programs import ServerProgram, find_server
from tests.cluster.key_streams import follow
from tests.locks.conftest import Server, free_port, redis_at
from tests.specs import spec_of

PATIENT_S = 10
"""How long something is awaited that has to come, however busy the machine is."""

MakeCluster = Callable[..., ProcessCluster]


@pytest.fixture(scope="session")
def redis_program() -> ServerProgram:
    return find_server("redis")


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A new folder whose path is short: that of a socket has 107 bytes at most, and TMPDIR may be long."""
    with TemporaryDirectory(prefix="fencepost-test-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def state(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunState]:
    """Of a run in containers if the test needs an engine."""
    needs_engine = any("engine" in marker.args for marker in request.node.iter_markers("needs"))
    with RunState.create(parent=tmp_path / "state", site=find_engine().site if needs_engine else None) as state:
        yield state


@pytest.fixture
def make_cluster(tmp_path: Path, state: RunState) -> Iterator[MakeCluster]:
    """Start a cluster with this number of nodes and clients; it is stopped after the test."""
    with contextlib.ExitStack() as stops:

        def make(nodes: int = 1, clients: int = 1, **options: object) -> ProcessCluster:
            names = [f"n{i}" for i in range(1, nodes + 1)], [f"c{i}" for i in range(1, clients + 1)]
            cluster = ProcessCluster(spec_of(*names, **options), state, tmp_path / "logs")
            stops.callback(cluster.stop)
            cluster.start()
            return cluster

        yield make


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Two clients and two nodes, for tests that leave the cluster as they found it."""
    folder = tmp_path_factory.mktemp("cluster")
    with RunState.create(parent=folder / "state") as state:
        cluster = ProcessCluster(spec_of(["n1", "n2"], ["c1", "c2"]), state, folder / "logs")
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One Redis."""
    server = Server(redis_at("127.0.0.1", free_port()))
    server.start()
    yield server
    server.stop()


class Dialled:
    """A plain connection that is kept open: what a client with a warm connection sees."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, timeout=PATIENT_S)

    def send(self, text: str) -> None:
        self._socket.sendall(text.encode() + b"\r\n")

    def receive(self, within_s: float = PATIENT_S) -> str:
        """What arrives next; raises TimeoutError if nothing does, `''` is the end of the connection."""
        self._socket.settimeout(within_s)
        return self._socket.recv(65536).decode()

    def ask(self, text: str) -> str:
        self.send(text)
        return self.receive()

    def asked_ms(self, text: str) -> float:
        """How long the answer takes."""
        began = time.perf_counter()
        assert self.ask(text)
        return (time.perf_counter() - began) * 1000

    def is_silent(self, for_s: float = 0.15) -> bool:
        """Whether nothing arrives, not even an end."""
        try:
            self.receive(for_s)
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def dial() -> Iterator[Callable[[Address], Dialled]]:
    """Open a warm connection: it has carried a command and its reply."""
    opened: list[Dialled] = []

    def connect(address: Address) -> Dialled:
        opened.append(connection := Dialled(address))
        assert connection.ask("PING") == "+PONG\r\n"
        return connection

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def stream(server: Server) -> Iterator[KeyEventStream]:
    server.client().flushall()
    stream = KeyEventStream("n1", Address(server.address.host, server.address.port))
    follow(stream, lambda told: any(event.event == "watching" for event in told))
    yield stream
    stream.close()
