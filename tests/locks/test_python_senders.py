"""Which call sent which bytes, as the Python half of the lock protocol notes it, with threads and with asyncio: real
connections over loopback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.locks.sending import Peer, Toy, lines, listening, notes

HALF = Path(__file__).parents[2] / "workloads" / "adapters" / "python"
THREADS = """
import socket, sys, threading
sys.path.append({half!r})
from fencepost_adapter import info, serve

class Toy:
    def __init__(self, nodes, settings):
        self.socket = socket.create_connection((nodes[0]["host"], nodes[0]["port"]))
        self.is_over, self.outliving = threading.Event(), None
    def acquire(self, key, ttl_ms):
        if key == "send":
            self.socket.sendall(b"12345")
        if key == "begin":
            self.outliving = threading.Thread(target=self.outlive)
            self.outliving.start()
        if key == "end of what was begun":
            self.is_over.set()
            self.outliving.join()
        return info("done")
    def outlive(self):
        self.is_over.wait()
        self.socket.sendall(b"12345")
    def describe(self): return {{}}
serve(Toy)
"""
ASYNCIO = """
import asyncio, sys
sys.path.append({half!r})
from fencepost_adapter import info
from fencepost_adapter_async import serve

class Toy:
    def __init__(self, writer):
        self.writer = writer
        self.is_over, self.outliving = asyncio.Event(), None
    async def acquire(self, key, ttl_ms):
        if key == "send":
            await asyncio.sleep(0.001)
            await self.send()
        if key == "begin":
            self.outliving = asyncio.create_task(self.outlive())
        if key == "end of what was begun":
            self.is_over.set()
            await self.outliving
        return info("done")
    async def send(self):
        self.writer.write(b"12345")
        await self.writer.drain()
    async def outlive(self):
        await self.is_over.wait()
        await self.send()
    def describe(self): return {{}}

async def open_adapter(nodes, settings):
    return Toy((await asyncio.open_connection(nodes[0]["host"], nodes[0]["port"]))[1])
serve(open_adapter)
"""


@pytest.fixture
def peer() -> Iterator[Peer]:
    with listening() as peer:
        yield peer


@pytest.fixture(params=[THREADS, ASYNCIO], ids=["threads", "asyncio"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    (tmp_path / "adapter.py").write_text(request.param.format(half=str(HALF)))
    return [sys.executable, "-I", str(tmp_path / "adapter.py")]


@pytest.fixture
def senders(tmp_path: Path) -> Path:
    return tmp_path / "senders"


@pytest.fixture
def toy(command: list[str], peer: Peer, tmp_path: Path, senders: Path) -> Iterator[Toy]:
    with closing(Toy(command, peer, tmp_path, senders)) as toy:
        yield toy


def test_a_note_stands_before_the_bytes_of_another_task(toy: Toy, senders: Path, peer: Peer) -> None:
    for task in ("c1@1", "c1@1", "c1@2", "c1@1"):
        toy.call(task, "send")
    assert notes(senders) == [(0, "c1@1"), (10, "c1@2"), (15, "c1@1")]
    assert {line.port for line in lines(senders)} == peer.ports


def test_what_is_sent_when_its_call_is_over_is_of_no_task(toy: Toy, senders: Path) -> None:
    toy.call("c1@1", "begin")
    toy.call("c1@1", "send")
    toy.call("c1@2", "end of what was begun")
    assert notes(senders) == [(0, "c1@1"), (5, None)]


def test_nothing_is_noted_unless_it_is_asked_for(command: list[str], tmp_path: Path, senders: Path, peer: Peer) -> None:
    with closing(Toy(command, peer, tmp_path)) as toy:
        toy.call("c1@1", "send")
    assert not senders.exists()
