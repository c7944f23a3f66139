"""Dial a server, over a link or directly, and read what it answers until a moment. Everything here raises OSError."""

from __future__ import annotations

import socket
from time import monotonic
from typing import Final

from cluster.address import Address
from cluster.base import DIALLED_FROM, LOOPBACK

_LAST_LOOK_S: Final = 1e-3
"""What has come by the moment is read also when the reader is late."""


def source_for(link: Address) -> tuple[str, int] | None:
    """Where the harness dials a link from; None: from any address."""
    return (DIALLED_FROM, 0) if link.host == LOOPBACK else None


def dial(address: Address, timeout_ms: float, *, is_link: bool = False) -> socket.socket:
    source = source_for(address) if is_link else None
    return socket.create_connection((address.host, address.port), timeout=timeout_ms / 1e3, source_address=source)


def receive(connection: socket.socket, most: int, until_s: float | None = None) -> bytes:
    """Up to so many bytes; none if the server has closed the connection. `until_s`: when to give up, on the monotonic
    clock; None: when the socket does."""
    if until_s is not None:
        connection.settimeout(max(until_s - monotonic(), _LAST_LOOK_S))
    return connection.recv(most)


def exactly(connection: socket.socket, count: int, until_s: float | None = None) -> bytes:
    """So many bytes; otherwise as `receive`, but for a connection that was closed too early."""
    received = b""
    while len(received) < count:
        if not (some := receive(connection, count - len(received), until_s)):
            raise ConnectionResetError("the connection was closed")
        received += some
    return received
