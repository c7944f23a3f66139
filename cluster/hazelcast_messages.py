"""Just enough of Hazelcast's client protocol to connect to a member and to ping it, and the questions that a member
answers at its operator's port (`fencepost/setup/hazelcast/Member.java`)."""

from __future__ import annotations

import os
import socket
import struct
from time import monotonic
from typing import Final

from cluster.address import Address
from cluster.dialling import dial, exactly, receive

CLUSTER: Final = "fencepost"
OPERATOR: Final = 5702

_HELLO: Final = b"CP2"
_AUTHENTICATE, _PING = 0x000100, 0x000B00
_WHOLE, _LAST, _BEGINS, _ENDS, _NOTHING = 0xC000, 0x2000, 0x1000, 0x0800, 0x0400
"""Flags of a frame: a message in one part, its last frame, a list's edges, a value that is missing."""
_HEAD: Final = struct.Struct("<iH")
_VERSION: Final = "5.4.0"


def ask(member: Address, question: str, timeout_ms: float) -> str:
    """The answer to an operator's question. Raises OSError."""
    until_s, said = monotonic() + timeout_ms / 1e3, b""
    with dial(Address(member.host, OPERATOR), timeout_ms) as connection:
        connection.sendall(f"{question}\n".encode())
        while not said.endswith(b"\n"):
            if not (some := receive(connection, 65_536, until_s)):
                raise ConnectionResetError("the connection was closed")
            said += some
    return said.decode(errors="replace").strip()


def connect_through(link: Address, name: str, timeout_ms: float) -> None:
    """Be a client of this name for a moment. Raises OSError if the member does not take it."""
    with dial(link, timeout_ms, is_link=True) as dialled:
        log_in(dialled, name, timeout_ms)


def log_in(connection: socket.socket, name: str, timeout_ms: float) -> None:
    """Raises OSError."""
    who = struct.pack("<?", False) + os.urandom(16)
    nothing = _frame(b"", _NOTHING)
    texts = [_frame(text.encode()) for text in ("PYH", _VERSION, name)]
    request = _frame(_begin(_AUTHENTICATE) + who + b"\x01", _WHOLE)
    request += _frame(CLUSTER.encode()) + nothing + nothing + b"".join(texts)
    request += _frame(b"", _BEGINS) + _frame(b"", _ENDS | _LAST)
    connection.sendall(_HELLO + request)
    status = _reply(connection, _AUTHENTICATE, timeout_ms)[:1]
    if status != b"\0":
        raise ConnectionError(f"the member took no client: status {status.hex()}")


def ping(connection: socket.socket, timeout_ms: float) -> None:
    """Over a connection that is logged in. Raises OSError."""
    connection.sendall(_frame(_begin(_PING), _WHOLE | _LAST))
    _reply(connection, _PING, timeout_ms)


def _begin(kind: int) -> bytes:
    """A message of this kind, the first of its connection, for no partition."""
    return struct.pack("<iqi", kind, 1, -1)


def _frame(content: bytes, flags: int = 0) -> bytes:
    return _HEAD.pack(_HEAD.size + len(content), flags) + content


def _reply(connection: socket.socket, kind: int, timeout_ms: float) -> bytes:
    """What follows the head of the reply. Raises ConnectionError for an error, such as a member answers that has not
    joined yet."""
    reply = _read(connection, timeout_ms)
    if (said := int.from_bytes(reply[:4], "little")) != kind + 1:
        raise ConnectionError(f"the member answered {kind:#x} with {said:#x}")
    return reply[13:]


def _read(connection: socket.socket, timeout_ms: float) -> bytes:
    """The first frame of the next message, all of which is read."""
    until_s, first = monotonic() + timeout_ms / 1e3, b""
    while True:
        length, flags = _HEAD.unpack(exactly(connection, _HEAD.size, until_s))
        content = exactly(connection, length - _HEAD.size, until_s)
        first = first or content
        if flags & _LAST:
            return first
