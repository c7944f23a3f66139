"""What set-up mends in Toxiproxy (`fencepost/setup/toxiproxy/mends.json`): links still change while connections die
behind them.

A change holds the lock of its proxy until every connection has let it through. The tests keep it waiting on a
connection in which nothing moves, so that what happens meanwhile always happens in the same order.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

from cluster.address import Address
from cluster.http_batch import Request
from cluster.programs import find_toxiproxy
from cluster.toxiproxy_api import ProxyState, RefusedError, Stream, ToxicSpec, ToxiproxyApi, adding, enabling, updating
from fencepost.errors import BrokenEnvironmentError

Answers = dict[str, ProxyState | RefusedError | None]

NAME = "c1-n1"
WITHIN_S = 20.0
"""A change that is let through takes milliseconds; without the mends it never ends."""


def no_delay(stream: Stream, toxicity: float = 1.0) -> ToxicSpec:
    return ToxicSpec("latency", stream, (("jitter", 0), ("latency", 0)), toxicity)


RESET = ToxicSpec("reset_peer", "downstream", (("timeout", 0),))


class Proxied:
    """One proxy in front of a socket of the test's own."""

    def __init__(self, api: ToxiproxyApi, path: Path, upstream: socket.socket, threads: ThreadPoolExecutor) -> None:
        self._api, self._path, self.upstream, self._threads = api, path, upstream, threads
        to = Address(*upstream.getsockname())
        self.listen = api.create_all({NAME: (Address("127.0.0.1", 0), to)})[NAME].listen

    def dial(self, sockets: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
        """A connection through the proxy, as its client and its server have it."""
        client = sockets.enter_context(socket.create_connection(self.listen, timeout=WITHIN_S))
        server, _ = self.upstream.accept()
        return client, sockets.enter_context(server)

    def begin(self, request: Request) -> Future[Answers]:
        """Ask for a change; when this returns, it is over, or holds the lock of the proxy."""
        begun = self._threads.submit(self._api.change, {NAME: [request]}, 2 * WITHIN_S)
        while not begun.done() and not self._is_locked():
            pass
        return begun

    def held_up(self, sender: socket.socket, name: str, toxic: ToxicSpec) -> Future[Answers]:
        """A change that waits for a connection in which nothing moves, because what one side sends is not read."""
        assert is_over(self.begin(adding(NAME, name, toxic)))
        self._threads.submit(flood, sender)
        while (change := self.begin(updating(NAME, name, toxic))).done():
            pass
        return change

    def _is_locked(self) -> bool:
        """Reading the toxics of a proxy needs its lock, too."""
        try:
            ToxiproxyApi(self._path, timeout_s=0.1).proxies()
        except BrokenEnvironmentError:
            return True
        return False


@pytest.fixture
def proxied(socket_folder: Path) -> Iterator[Proxied]:
    path = socket_folder / "proxy.sock"
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor())
        program = stack.enter_context(subprocess.Popen([find_toxiproxy().path, "-socket", path]))
        stack.callback(program.kill)
        api = ToxiproxyApi(path)
        api.wait_until_up(lambda: program.poll() is None, WITHIN_S)
        upstream = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=8))
        upstream.settimeout(WITHIN_S)
        yield Proxied(api, path, upstream, threads)


@pytest.fixture
def sockets() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def flood(sender: socket.socket) -> None:
    """Send until the connection ends."""
    sender.settimeout(None)
    with contextlib.suppress(OSError):
        while True:
            sender.sendall(bytes(1 << 20))


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def fill(upstream: socket.socket, sockets: contextlib.ExitStack) -> None:
    """Connect to a server that accepts nothing until its queue is full: it answers no other that dials."""
    with contextlib.suppress(TimeoutError):
        while True:
            sockets.enter_context(socket.create_connection(upstream.getsockname(), timeout=0.2))


def is_over(change: Future[Answers]) -> bool:
    return isinstance(change.result(WITHIN_S)[NAME], ProxyState)


def test_a_change_is_not_held_up_by_a_client_that_goes_away_with_replies_under_way(
    proxied: Proxied, sockets: contextlib.ExitStack
) -> None:
    client, server = proxied.dial(sockets)
    change = proxied.held_up(server, "f1", no_delay("downstream"))
    reset(client)
    assert is_over(change)


def test_a_change_is_not_held_up_by_a_toxic_that_has_ended_the_connection(
    proxied: Proxied, sockets: contextlib.ExitStack
) -> None:
    """The toxic that is changed then is the one before the one that resets connections."""
    assert is_over(proxied.begin(adding(NAME, "f1", no_delay("downstream"))))
    assert is_over(proxied.begin(adding(NAME, "f2", RESET)))
    client, server = proxied.dial(sockets)
    flooding, full = proxied.dial(sockets)
    first = proxied.held_up(flooding, "f3", no_delay("upstream"))
    second = proxied.begin(updating(NAME, "f1", no_delay("downstream", toxicity=0.0)))
    server.sendall(bytes(1 << 18))
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(1) == b"", "it was reset; to be forgotten by the proxy it waits for the second change"
    reset(full)
    assert is_over(first)
    assert is_over(second)


def test_a_link_is_not_held_up_by_a_node_that_does_not_answer_when_it_is_dialled(
    proxied: Proxied, sockets: contextlib.ExitStack
) -> None:
    fill(proxied.upstream, sockets)
    sockets.enter_context(socket.create_connection(proxied.listen, timeout=WITHIN_S))
    asked_s = monotonic()
    assert is_over(proxied.begin(enabling(NAME, enabled=False)))
    assert monotonic() - asked_s < WITHIN_S / 4, "Linux goes on dialling for longer"


def test_a_client_is_told_soon_that_its_node_does_not_answer(proxied: Proxied, sockets: contextlib.ExitStack) -> None:
    fill(proxied.upstream, sockets)
    client = sockets.enter_context(socket.create_connection(proxied.listen, timeout=WITHIN_S / 4))
    assert client.recv(1) == b""
