"""Just enough of Redis's protocol to ask a server something directly, over one fresh connection and within a time.

No client library here: what is asked must not be retried, pooled or preceded by a handshake.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence

import hiredis

from cluster.base import Address

Reply = str | int | float | bool | None | list["Reply"] | hiredis.HiredisError
Command = Sequence[str | int]


def encode(*command: str | bytes | int) -> bytes:
    """The command as it goes over the wire."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub says: one argument
    return packed


def ask(address: Address, *commands: Command, timeout_ms: float) -> list[Reply]:
    """Send the commands in one go and return their replies in order; an error reply is a value, not raised.

    Raises OSError (TimeoutError among them) if the server did not answer all of them within the time.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    reader = hiredis.Reader(encoding="utf-8", errors="replace", notEnoughData=Ellipsis)
    replies: list[Reply] = []
    with socket.create_connection(address, timeout=timeout_ms / 1000) as connection:
        connection.settimeout(_left(deadline))
        connection.sendall(b"".join(encode(*command) for command in commands))
        while len(replies) < len(commands):
            connection.settimeout(_left(deadline))
            if not (received := connection.recv(65536)):
                raise ConnectionResetError(f"{address} closed the connection before it answered")
            reader.feed(received)
            while (reply := reader.gets()) is not Ellipsis:
                replies.append(reply)
    return replies


def answers_ping(address: Address, timeout_ms: float) -> bool:
    """Whether a server there answers PING with PONG within the time (one that still loads its data does not)."""
    try:
        return ask(address, ("PING",), timeout_ms=timeout_ms) == ["PONG"]
    except OSError:
        return False


def config(address: Address, pattern: str = "*", *, timeout_ms: float) -> dict[str, str]:
    """`CONFIG GET pattern`. Raises OSError if the server does not answer."""
    (reply,) = ask(address, ("CONFIG", "GET", pattern), timeout_ms=timeout_ms)
    if not isinstance(reply, list):
        raise OSError(f"{address} answered CONFIG GET with {reply!r}")
    words = [str(word) for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
