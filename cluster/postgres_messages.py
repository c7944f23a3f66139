"""Just enough of PostgreSQL's protocol (version 3) to ask a server something directly.

No client library here: what is asked must not be retried or pooled. All requests of a connection, the start-up among
them, are sent at once, so that a server gets them also where no reply comes back.
"""

from __future__ import annotations

import socket
import struct
from time import monotonic
from typing import Final

from cluster.address import Address
from cluster.dialling import dial, exactly

USER: Final = "fencepost"
DATABASE: Final = "postgres"
Row = tuple[str | None, ...]

_VERSION_3: Final = 196_608
_READY: Final = b"Z"
_ROW: Final = b"D"
_ERROR: Final = b"E"
_ASKED_FOR_LOGIN: Final = b"R"


class PostgresConnection:
    """One connection, which is closed with it. Every call raises OSError if the server does not answer in time, or
    with an error."""

    def __init__(
        self,
        address: Address,
        timeout_ms: float,
        *,
        name: str = "fencepost",
        is_link: bool = False,
        database: str = DATABASE,
    ) -> None:
        """`name`: what the session is called in `pg_stat_activity`."""
        self._until_s = monotonic() + timeout_ms / 1e3
        self._socket = dial(address, timeout_ms, is_link=is_link)
        self._socket.sendall(start_up(name, database))

    def wait(self) -> None:
        """Until the session is ready."""
        read_reply(self._socket, self._until_s)

    def send(self, sql: str) -> None:
        self._socket.sendall(query(sql))

    def ask(self, sql: str) -> list[Row]:
        self.send(sql)
        return read_reply(self._socket, self._until_s)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> PostgresConnection:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def ask(address: Address, sql: str, timeout_ms: float, database: str = DATABASE) -> list[Row]:
    """The rows of one query over a fresh connection. Raises OSError."""
    with PostgresConnection(address, timeout_ms, database=database) as connection:
        connection.wait()
        return connection.ask(sql)


def start_up(name: str, database: str = DATABASE) -> bytes:
    told = ("user", USER, "database", database, "application_name", name, "")
    body = struct.pack("!i", _VERSION_3) + b"".join(word.encode() + b"\0" for word in told)
    return struct.pack("!i", len(body) + 4) + body


def query(sql: str) -> bytes:
    body = sql.encode() + b"\0"
    return b"Q" + struct.pack("!i", len(body) + 4) + body


def read_reply(connection: socket.socket, until_s: float | None = None) -> list[Row]:
    """The rows that come until the session is ready for the next query. `until_s`: when to give up, on the monotonic
    clock; by default, when the socket does."""
    rows: list[Row] = []
    error: str | None = None
    while True:
        kind, body = _message(connection, until_s)
        if kind == _ROW:
            rows.append(_row(body))
        elif kind == _ERROR:
            error = _error(body)
            if error.startswith("FATAL"):
                raise ConnectionAbortedError(error)
        elif kind == _ASKED_FOR_LOGIN and body != bytes(4):
            raise ConnectionAbortedError("the server asks for a password")
        elif kind == _READY:
            if error is not None:
                raise OSError(error)
            return rows


def _message(connection: socket.socket, until_s: float | None) -> tuple[bytes, bytes]:
    head = exactly(connection, 5, until_s)
    return head[:1], exactly(connection, struct.unpack("!i", head[1:])[0] - 4, until_s)


def _row(body: bytes) -> Row:
    (columns,) = struct.unpack_from("!h", body)
    values: list[str | None] = []
    at = 2
    for _ in range(columns):
        (length,) = struct.unpack_from("!i", body, at)
        at += 4
        values.append(None if length < 0 else body[at : at + length].decode(errors="replace"))
        at += max(length, 0)
    return tuple(values)


def _error(body: bytes) -> str:
    """`FATAL 57P03: the database system is starting up`."""
    fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    return f"{fields.get(b'V', '')} {fields.get(b'C', '')}: {fields.get(b'M', '')}"
