"""A toy lock in a program of its own that two tasks share, a server to which it sends, and what it notes of that."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from fencepost.history import Sender
from tests.locks.conftest import redis_at
from workloads.base import LockSettings, NodeAddress
from workloads.calling import calling
from workloads.foreign import ForeignLock, UnknownOutcomeError


@dataclass
class Peer:
    """A server that only reads. `ports`: those that connected to it."""

    address: NodeAddress
    ports: set[int] = field(default_factory=set)


@contextmanager
def listening() -> Iterator[Peer]:
    def read(own: socket.socket) -> None:
        with own:
            while own.recv(65_536):
                pass

    def accept() -> None:
        with suppress(OSError):
            while True:
                own, (_, port) = server.accept()
                peer.ports.add(port)
                threading.Thread(target=read, args=(own,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = Peer(redis_at("127.0.0.1", server.getsockname()[1]))
        threading.Thread(target=accept, daemon=True).start()
        yield peer
        server.shutdown(socket.SHUT_RDWR)


class Toy:
    """Each task has a thread of its own. `begin`: a task calls the lock, and `what` says what that does. `folder`: for
    its log; `senders`: where it notes which call sends what."""

    def __init__(self, command: Sequence[str], peer: Peer, folder: Path, senders: Path | None = None) -> None:
        settings = LockSettings(log_path=folder / "log", tasks=2, senders_path=senders)
        self._lock = ForeignLock(command, [peer.address], settings)
        self._threads = {f"c1@{number}": ThreadPoolExecutor(1) for number in (1, 2)}

    def begin(self, task: str, what: str) -> Future[None]:
        return self._threads[task].submit(self._ask, task, what)

    def call(self, task: str, what: str) -> None:
        self.begin(task, what).result(30)

    def _ask(self, task: str, what: str) -> None:
        with pytest.raises(UnknownOutcomeError, match="done"), calling(task):
            self._lock.acquire(what, 1_000)

    def close(self) -> None:
        for thread in self._threads.values():
            thread.shutdown()
        self._lock.close()


def notes(senders: Path) -> list[tuple[int, str | None]]:
    return [(line.after_bytes, line.task) for line in lines(senders)]


def lines(senders: Path) -> list[Sender]:
    return [msgspec.json.decode(line, type=Sender) for line in senders.read_bytes().splitlines()]
