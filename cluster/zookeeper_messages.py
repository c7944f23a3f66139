"""Just enough of ZooKeeper's protocol to ask a member something directly. Nothing is retried.

All requests of a connection, the first of which opens a session, are sent at once, so that a member gets them also
where no reply comes back. It reads the others when the session is open.
"""

from __future__ import annotations

import socket
import struct
from time import monotonic
from typing import Final

from cluster.address import Address
from cluster.dialling import dial, exactly, receive

_SESSION_MS: Final = 1_000
_CREATE, _CHILDREN, _PING, _CLOSE = 1, 8, 11, -11
_EPHEMERAL: Final = 1
_ALL_RIGHTS: Final = 31


def create(path: str) -> bytes:
    """Make an empty node that vanishes with the session."""
    anybody = struct.pack("!ii", 1, _ALL_RIGHTS) + _text("world") + _text("anyone")
    return struct.pack("!i", _CREATE) + _text(path) + _text("") + anybody + struct.pack("!i", _EPHEMERAL)


def children(path: str) -> bytes:
    return struct.pack("!i", _CHILDREN) + _text(path) + b"\0"


def close() -> bytes:
    """End the session, and with it what is its own."""
    return struct.pack("!i", _CLOSE)


def ask(address: Address, timeout_ms: float, *requests: bytes, is_link: bool = False) -> list[bytes]:
    """The replies to requests in a session of their own, without their headers. Raises OSError if they do not all come
    in time, or if one is an error."""
    until_s = monotonic() + timeout_ms / 1e3
    with dial(address, timeout_ms, is_link=is_link) as connection:
        connection.sendall(b"".join([_framed(_opening()), *map(_numbered, requests, range(len(requests)))]))
        _read(connection, until_s)
        replies = []
        for _ in requests:
            reply = _read(connection, until_s)
            _, _, error = struct.unpack_from("!iqi", reply)
            if error:
                raise ConnectionError(f"{address} answered with the error {error}")
            replies.append(reply[16:])
        return replies


def open_session(connection: socket.socket) -> None:
    """Raises OSError."""
    connection.sendall(_framed(_opening()))
    _read(connection, monotonic() + _SESSION_MS / 1e3)


def ping(connection: socket.socket) -> None:
    """What clients send to keep their session, over a connection that has one. Raises OSError."""
    until_s = monotonic() + _SESSION_MS / 1e3
    connection.sendall(_framed(struct.pack("!ii", -2, _PING)))
    _read(connection, until_s)


def names(reply: bytes) -> list[str]:
    """The names in a reply to `children`."""
    (count,), at, found = struct.unpack_from("!i", reply), 4, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", reply, at)
        found.append(reply[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return found


def word(address: Address, four_letters: str, timeout_ms: float) -> str:
    """The answer to a command of four letters, which needs no session. Raises OSError."""
    until_s, said = monotonic() + timeout_ms / 1e3, b""
    with dial(address, timeout_ms) as connection:
        connection.sendall(four_letters.encode())
        while some := receive(connection, 4096, until_s):
            said += some
    return said.decode(errors="replace")


def _opening() -> bytes:
    """A new session: version 0, nothing seen yet, no password."""
    return struct.pack("!iqiq", 0, 0, _SESSION_MS, 0) + struct.pack("!i", 16) + bytes(16) + b"\0"


def _numbered(request: bytes, number: int) -> bytes:
    return _framed(struct.pack("!i", number + 1) + request)


def _framed(body: bytes) -> bytes:
    return struct.pack("!i", len(body)) + body


def _text(text: str) -> bytes:
    return _framed(text.encode())


def _read(connection: socket.socket, until_s: float) -> bytes:
    (length,) = struct.unpack("!i", exactly(connection, 4, until_s))
    return exactly(connection, length, until_s)
