"""What one node tells of its keys, and between which moments it can have happened."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import Any

import pytest

from cluster.base import Address
from cluster.key_events import KeyEventStream
from fencepost.history import KeyEvent
from tests.locks.conftest import Server, free_port
from workloads.base import NodeAddress


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server(NodeAddress("127.0.0.1", free_port()))
    server.start()
    yield server
    server.stop()


class Stamping:
    """A socket that remembers when its newest bytes had been received."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.received_ns = 0

    def recv(self, size: int) -> bytes:
        data = self._real.recv(size)
        self.received_ns = monotonic_ns()
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def follow(stream: KeyEventStream, until: Callable[[list[KeyEvent]], bool]) -> list[KeyEvent]:
    told: list[KeyEvent] = []
    deadline = time.monotonic() + 10
    while not until(told):
        assert time.monotonic() < deadline, told
        stream.upkeep(monotonic_ns())
        assert stream.fd is not None
        poll = select.poll()
        poll.register(stream.fd, stream.wants)
        if poll.poll(20):
            stream.advance()
        told += stream.take()
    return told


@pytest.fixture
def stream(server: Server) -> Iterator[KeyEventStream]:
    server.client().flushall()
    stream = KeyEventStream("n1", Address(*server.address))
    follow(stream, lambda told: any(event.event == "watching" for event in told))
    yield stream
    stream.close()


def test_what_happens_to_a_key_is_told_in_order_with_its_value(stream: KeyEventStream, server: Server) -> None:
    client = server.client()
    client.set("k1", "v1", nx=True, px=60_000)
    first = follow(stream, lambda told: len(told) == 1)
    client.delete("k1")
    second = follow(stream, lambda told: len(told) == 1)
    assert [(e.event, e.key, e.value) for e in (*first, *second)] == [("set", "k1", "v1"), ("deleted", "k1", None)]
    assert first[0].ttl_ms is not None
    assert 0 < first[0].ttl_ms <= 60_000


def test_an_event_lies_between_its_two_bounds(stream: KeyEventStream, server: Server) -> None:
    before_ns = monotonic_ns()
    server.client().set("k1", "v1")
    after_ns = monotonic_ns()
    (event,) = follow(stream, lambda told: len(told) == 1)
    assert event.since_ns is not None
    assert event.since_ns <= after_ns
    assert event.at_ns >= before_ns


def test_the_later_bound_is_not_earlier_than_the_news(stream: KeyEventStream, server: Server) -> None:
    """A watcher may lose the processor between looking and receiving; what it receives can be of that time."""
    assert stream._connection is not None
    stamping = Stamping(stream._connection._socket)
    stream._connection._socket = stamping  # type: ignore[assignment]
    server.client().set("k1", "v1")
    poll = select.poll()
    assert stream.fd is not None
    poll.register(stream.fd, select.POLLIN)
    assert poll.poll(5_000)
    stream.advance()
    received_ns = stamping.received_ns
    (event,) = follow(stream, lambda told: len(told) == 1)
    assert event.at_ns >= received_ns > 0
