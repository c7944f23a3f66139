"""Probe links: send one command through each at the same time, and see what came of it.

The command leaves a mark on the node, so that afterwards the node itself can be asked whether it was applied: a
reply that was stopped on its way looks like a lost command from the client's side, and is something else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import hiredis

from cluster.base import Address, ProbeResult
from cluster.resp import Reply, encode

MARK_PREFIX = "fencepost:probe:"
"""Keys of probes; no lock key may begin so."""

_MARK_LIFE_MS = 5_000
_DIRECT_TIMEOUT_MS = 200.0


def probe_links(
    targets: Mapping[tuple[str, str], Address], nodes: Mapping[str, Address], timeout_ms: float
) -> dict[tuple[str, str], ProbeResult]:
    """Send one harmless SET through each link (by (client, node), at its address) over fresh connections.

    `nodes` says where each node itself listens. Returns as soon as every link has answered or failed, at the latest
    after about `timeout_ms`; asking the nodes takes at most another 200 ms, if one of them hangs.
    """
    run = os.urandom(8).hex()
    marks = {key: f"{MARK_PREFIX}{run}:{key[0]}" for key in targets}
    through = {
        key: _Exchange(address, encode("SET", marks[key], 1, "PX", _MARK_LIFE_MS), replies_wanted=1)
        for key, address in targets.items()
    }
    _play(through.values(), timeout_ms)

    asked: dict[str, list[tuple[str, str]]] = {}
    for key in targets:
        asked.setdefault(key[1], []).append(key)
    direct = {
        node: _Exchange(nodes[node], b"".join(encode("EXISTS", marks[key]) for key in keys), replies_wanted=len(keys))
        for node, keys in asked.items()
    }
    _play(direct.values(), _DIRECT_TIMEOUT_MS)

    applied: dict[tuple[str, str], bool] = {}
    for node, keys in asked.items():
        if direct[node].outcome == "answered":
            applied.update((key, reply == 1) for key, reply in zip(keys, direct[node].replies, strict=True))
    return {
        key: ProbeResult(
            answered=exchange.outcome == "answered",
            applied=applied.get(key),
            refused=exchange.outcome == "refused",
            elapsed_ms=exchange.elapsed_ms,
        )
        for key, exchange in through.items()
    }


@dataclass(slots=True)
class _Exchange:
    """One connection on which something is sent and so many replies are awaited, never blocking."""

    address: Address
    to_send: bytes
    replies_wanted: int
    outcome: Literal["pending", "answered", "refused", "silent"] = "pending"
    elapsed_ms: float = 0.0
    replies: list[Reply] = field(default_factory=list)
    _socket: socket.socket = field(init=False)
    _reader: hiredis.Reader = field(init=False)
    _began: float = field(init=False)

    def open(self) -> int:
        """Begin to connect; the file descriptor."""
        self._began = time.perf_counter()
        self._reader = hiredis.Reader(notEnoughData=Ellipsis)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        if (error := self._socket.connect_ex(self.address)) not in (0, errno.EINPROGRESS):
            self._finish("refused" if error == errno.ECONNREFUSED else "silent")
        return self._socket.fileno()

    @property
    def wants(self) -> int:
        """What to poll for."""
        return select.POLLOUT if self.to_send else select.POLLIN

    def advance(self) -> None:
        """Send and read as far as it goes without waiting."""
        try:
            if self.to_send:
                self.to_send = self.to_send[self._socket.send(self.to_send) :]
            elif received := self._socket.recv(65536):
                self._reader.feed(received)
                while (reply := self._reader.gets()) is not Ellipsis:
                    self.replies.append(reply)
                if len(self.replies) >= self.replies_wanted:
                    self._finish("answered")
            else:
                self._finish("refused")
        except BlockingIOError:
            pass
        except OSError:
            self._finish("refused")

    def give_up(self) -> None:
        if self.outcome == "pending":
            self._finish("silent")

    def _finish(self, outcome: Literal["answered", "refused", "silent"]) -> None:
        self.elapsed_ms = (time.perf_counter() - self._began) * 1000
        self.outcome = outcome
        self._socket.close()


def _play(exchanges: Iterable[_Exchange], timeout_ms: float) -> None:
    """Run all exchanges at the same time until each has its replies, failed, or the time is over."""
    poll = select.poll()
    pending: dict[int, _Exchange] = {}
    with contextlib.ExitStack() as at_the_end:
        for exchange in exchanges:
            fd = exchange.open()
            at_the_end.callback(exchange.give_up)
            if exchange.outcome == "pending":
                pending[fd] = exchange
                poll.register(fd, exchange.wants)
        deadline = time.monotonic() + timeout_ms / 1000
        while pending and (left_ms := (deadline - time.monotonic()) * 1000) > 0:
            for fd, _ in poll.poll(max(1, round(left_ms))):
                exchange = pending[fd]
                exchange.advance()
                if exchange.outcome == "pending":
                    poll.modify(fd, exchange.wants)
                else:
                    del pending[fd]
                    with contextlib.suppress(KeyError, OSError):
                        poll.unregister(fd)
