"""Bare redis-servers on loopback for the locks' tests, ended by pid."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from cluster.ports import Ports
from cluster.programs import find_server
from workloads.base import Lease, NodeAddress

_PORTS: Final = Ports()


def granted(lease: Lease | None) -> Lease:
    assert lease is not None
    return lease


def free_port() -> int:
    """A port that is ours until the tests end. Of the kernel's ephemeral range another process could get it while its
    server is down, and a client that dials it could end up connected to itself."""
    (port,) = _PORTS.take(1)
    return port


def redis_at(host: str, port: int) -> NodeAddress:
    """The address of a Redis."""
    return NodeAddress(host, port, f"redis://{host}:{port}/0")


@dataclass
class Server:
    """One redis-server without persistence."""

    address: NodeAddress
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program, at = find_server("redis").path, self.address
        words = [program, "--port", str(at.port), "--bind", at.host, "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, cwd="/tmp")
        deadline = time.monotonic() + 10
        while True:
            try:
                if self.client().ping():
                    return
            except redis.ConnectionError:
                assert time.monotonic() < deadline, "redis-server did not start"
                time.sleep(0.01)

    def client(self) -> redis.Redis:
        once = Retry(NoBackoff(), 0)
        return redis.Redis(self.address.host, self.address.port, socket_timeout=2, retry=once, decode_responses=True)

    def sets(self) -> int:
        """How many times it was asked to SET."""
        return int(self.client().info("commandstats").get("cmdstat_set", {}).get("calls", 0))

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self.process.pid}/stat")
        while stat.read_text().rsplit(")", 1)[1].split()[0] != "T":
            os.sched_yield()

    def resume(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.client().ping()


@pytest.fixture(scope="session")
def _five_servers() -> Iterator[list[Server]]:
    servers = [Server(redis_at("127.0.0.1", free_port())) for _ in range(5)]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.stop()


@pytest.fixture
def servers(_five_servers: list[Server]) -> Iterator[list[Server]]:
    """Five servers that run and are empty; what a test does to them is undone."""
    yield _five_servers
    for server in _five_servers:
        if server.process is None:
            server.start()
        else:
            server.resume()
        server.client().flushall()


@pytest.fixture
def nodes(servers: list[Server]) -> list[NodeAddress]:
    return [server.address for server in servers]
