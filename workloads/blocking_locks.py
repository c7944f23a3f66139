"""Locks whose clients sleep until they are woken up, and look again by themselves in case that was lost.

They are what locks that block wrongly are compared with. Both use the first node only, and wait for `--wait`.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

import hiredis

from workloads.base import Lease, LockSettings, NodeAddress
from workloads.connection import ConnectionPool, Reply, pack
from workloads.locks.set_nx_px import SetNxPx

_PUSH: bytes = b"""\
if redis.call("get",KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("del",KEYS[2])
redis.call("rpush",KEYS[2],"free")
redis.call("pexpire",KEYS[2],1000)
return redis.call("del",KEYS[1])"""

_PUBLISH: bytes = b"""\
if redis.call("get",KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("publish",KEYS[2],"free")
return redis.call("del",KEYS[1])"""


class _Blocking(SetNxPx):
    """`LOOKS_AGAIN_MS`: how long a client sleeps at most before it looks again by itself."""

    LOOKS_AGAIN_MS: ClassVar[float] = 200

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        until_ns = time.monotonic_ns() + int(self._settings.wait_ms * 1e6)
        self.prepare(key)
        while (lease := self.try_once(key, ttl_ms)) is None:
            left_ms = (until_ns - time.monotonic_ns()) / 1e6
            if left_ms <= 0:
                return None
            self.sleep(key, left_ms)
        return lease

    def sleeps_ms(self, left_ms: float) -> float:
        """How long to sleep if nothing wakes the client up, when so much of its time to wait is left."""
        return min(left_ms, self.LOOKS_AGAIN_MS)

    def prepare(self, key: str) -> None:
        """Before the client looks for the first time."""

    def sleep(self, key: str, left_ms: float) -> None:
        """Until it is woken up, or its time is over."""
        raise NotImplementedError

    def acquire_limit_ms(self) -> float:
        return self._settings.wait_ms + 8 * self._settings.node_timeout_ms


class _Bell(threading.local):
    """A second connection of a thread, for the requests that block."""

    def __init__(self, nodes: Sequence[NodeAddress], timeout_ms: float) -> None:
        self.pool = ConnectionPool(nodes, timeout_ms)


class WakesByPush(_Blocking):
    """A release pushes a token onto a list, and wakes up the client that has waited for it longest (BLPOP)."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._bell = _Bell(nodes[:1], settings.node_timeout_ms)

    def release_request(self, key: str, value: str) -> bytes:
        return pack("EVAL", _PUSH, 2, key, f"{key}:wake", value)

    def blocks_s(self, left_ms: float) -> float:
        """What the server is told: seconds."""
        return self.sleeps_ms(left_ms) / 1e3

    def bell(self) -> ConnectionPool:
        """Over which a client waits."""
        return self._bell.pool

    def sleep(self, key: str, left_ms: float) -> None:
        pool, seconds = self.bell(), max(self.blocks_s(left_ms), 0.001)
        pool.timeout_ms = seconds * 1e3 + self._settings.node_timeout_ms
        began_ns = time.monotonic_ns()
        pool.ask(pack("BLPOP", f"{key}:wake", str(seconds)))
        if pool.answered == 0 and time.monotonic_ns() - began_ns < self._settings.node_timeout_ms * 1e6:
            time.sleep(self.delay_ms() / 1e3)  # the node refused the connection

    def close(self) -> None:
        super().close()
        self._bell.pool.close()


class _InTurn(ConnectionPool):
    """The threads of a process use it one after the other."""

    def __init__(self, nodes: Sequence[NodeAddress], timeout_ms: float) -> None:
        self._turn = threading.Lock()
        super().__init__(nodes, timeout_ms)

    def ask(self, request: bytes, only: int | None = None, patient: bool = True) -> list[Reply]:
        with self._turn:
            return super().ask(request, only, patient)


class SharesConnections(WakesByPush):
    """The threads of a process share a connection for all requests that do not block. It looks again by itself within
    a second."""

    LOOKS_AGAIN_MS = 1_000

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._shared = _InTurn(nodes[:1], settings.node_timeout_ms)
        self._mine.pool.close()
        self._bell.pool.close()

    @property
    def _pool(self) -> ConnectionPool:
        return self._shared


class _Channel(threading.local):
    """A thread's subscription to one channel; it is made anew when it is lost."""

    def __init__(self, node: NodeAddress, timeout_ms: float) -> None:
        self._node, self._timeout_s = node, timeout_ms / 1e3
        self._socket: socket.socket | None = None
        self._reader = hiredis.Reader()
        self.name = ""

    def subscribe(self, name: str) -> bool:
        """Whether the client hears what is published from now on."""
        if self._socket is not None and self.name == name:
            return True
        self.close()
        try:
            made = socket.create_connection((self._node.host, self._node.port), self._timeout_s)
            self._socket, self._reader, self.name = made, hiredis.Reader(), name
            if self._node.password is not None:
                made.sendall(pack("AUTH", self._node.password))
                self._next(self._timeout_s)
            made.sendall(pack("SUBSCRIBE", name))
            return self._next(self._timeout_s)
        except OSError:
            self.close()
            return False

    def wait(self, timeout_ms: float) -> None:
        """Until something is published, or the connection is lost, or the time is over."""
        if self._socket is None:
            time.sleep(timeout_ms / 1e3)
            return
        try:
            self._next(timeout_ms / 1e3)
        except OSError:
            self.close()

    def forget(self) -> None:
        """What was published before now."""
        try:
            while self._socket is not None and self._next(0):
                pass
        except OSError:
            self.close()

    def _next(self, timeout_s: float) -> bool:
        """Take one reply or message. Raises OSError if the connection is lost."""
        assert self._socket is not None
        until_ns = time.monotonic_ns() + int(timeout_s * 1e9)
        while self._reader.gets() is False:
            self._socket.settimeout(max((until_ns - time.monotonic_ns()) / 1e9, 1e-6))
            try:
                data = self._socket.recv(65_536)
            except TimeoutError:
                return False
            if not data:
                raise ConnectionError("the node closed the connection")
            self._reader.feed(data)
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


class WakesByMessage(_Blocking):
    """A release publishes a message, which wakes up all clients. They subscribe before they look."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._channel = _Channel(nodes[0], settings.node_timeout_ms)

    def release_request(self, key: str, value: str) -> bytes:
        return pack("EVAL", _PUBLISH, 2, key, f"{key}:free", value)

    def hears(self, key: str) -> bool:
        """Whether a release can wake the client up from now on."""
        return self._channel.subscribe(f"{key}:free")

    def prepare(self, key: str) -> None:
        if self.hears(key):
            self._channel.forget()

    def sleep(self, key: str, left_ms: float) -> None:
        if self.hears(key):
            self._channel.wait(self.sleeps_ms(left_ms))
        else:
            time.sleep(self.delay_ms() / 1e3)

    def close(self) -> None:
        super().close()
        self._channel.close()


class LooksAgainLater(WakesByMessage):
    """It looks again by itself within a second."""

    LOOKS_AGAIN_MS = 1_000
