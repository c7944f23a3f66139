"""Follows what a node tells of its keys, until a test has seen enough."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from time import monotonic_ns

from cluster.key_events import KeyEventStream
from fencepost.history import KeyEvent


def sockets_of(stream: KeyEventStream) -> select.poll:
    assert stream.wants
    poll = select.poll()
    for fd, events in stream.wants.items():
        poll.register(fd, events)
    return poll


def follow(stream: KeyEventStream, until: Callable[[list[KeyEvent]], bool]) -> list[KeyEvent]:
    told: list[KeyEvent] = []
    deadline = time.monotonic() + 10
    while not until(told):
        assert time.monotonic() < deadline, told
        stream.upkeep(monotonic_ns())
        if sockets_of(stream).poll(20):
            stream.advance()
        told += stream.take()
    return told
