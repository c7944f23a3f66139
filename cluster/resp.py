"""Just enough of Redis's protocol to talk to servers directly, without ever blocking on one of them.

A `RespConnection` is opened, written and read as far as possible without waiting; its owner polls. An `Exchange` is a
request and its replies, and `exchange_all` carries out many in parallel within a time limit. `ask` is one over a fresh
connection.

No client library here: what is asked must not be retried, pooled or preceded by a handshake.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import hiredis

from cluster.address import Address

Reply = str | int | float | bool | None | list["Reply"] | hiredis.HiredisError
Command = Sequence[str | int]

_READ_BYTES: Final = 1 << 16


def encode(*command: str | bytes | int) -> bytes:
    """The command as it goes over the wire."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub says: one argument
    return packed


class RespConnection:
    """A connection to one server. No method waits; poll `fd` for `wants`, then call `advance` and `flush`.

    The constructor starts to connect. It raises OSError if that fails immediately, as the other methods do as soon as
    the connection has failed, has ended, or carries something that is not Redis's protocol; it is then of no further
    use except to be closed. If the address has a login, it goes ahead of the first request, and its reply is dropped.
    With `text`, replies are decoded as UTF-8 instead of being bytes. `dialled_from`: an address of this host.
    """

    def __init__(self, address: Address, *, text: bool = False, dialled_from: str | None = None) -> None:
        encoding, errors = ("utf-8", "replace") if text else (None, None)
        self._reader = hiredis.Reader(notEnoughData=Ellipsis, encoding=encoding, errors=errors)
        self._unsent = b"" if address.login is None else encode("AUTH", *address.login)
        self._is_logging_in = address.login is not None
        self.is_connecting = True
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if dialled_from is not None:
            self._socket.bind((dialled_from, 0))
        code = self._socket.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            self._socket.close()
            raise OSError(code, os.strerror(code))

    @property
    def fd(self) -> int:
        return self._socket.fileno()

    @property
    def wants(self) -> int:
        """What to poll for."""
        if self.is_connecting:
            return select.POLLOUT
        return select.POLLIN | (select.POLLOUT if self._unsent else 0)

    def queue(self, request: bytes) -> None:
        """Put the request behind what is still to be sent; `flush` sends it."""
        self._unsent += request

    def advance(self) -> bool:
        """Finish connecting, or receive what has come; whether something was received, so that `replies` may have
        some."""
        if self.is_connecting:
            if code := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(code, os.strerror(code))
            self.is_connecting = False
            return False
        try:
            received = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        if not received:
            raise ConnectionResetError("the server closed the connection")
        self._reader.feed(received)
        return True

    def flush(self) -> None:
        """Send as much as goes now; a connection that is not made yet takes nothing."""
        if not self._unsent:
            return
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return
        self.is_connecting = False

    def replies(self) -> Iterator[object]:
        """The replies that are complete, each once, as hiredis parses them; an error reply is a value, too."""
        try:
            while (reply := self._reader.gets()) is not Ellipsis:
                if not self._is_logging_in:
                    yield reply
                elif isinstance(reply, hiredis.ReplyError):
                    raise ConnectionAbortedError(f"the server refuses the login: {reply}")
                self._is_logging_in = False
        except hiredis.ProtocolError as error:
            raise ConnectionAbortedError(f"the server does not speak Redis's protocol: {error}") from None

    def close(self) -> None:
        self._socket.close()


class Exchange:
    """One or more requests, sent in one go, and the replies to them.

    Over `connection` if there is one, otherwise over a fresh one to `address`. After `exchange_all`: either
    `is_answered`, or `failure` says why the connection failed, or neither, when the time was up.
    """

    def __init__(
        self,
        address: Address,
        request: bytes,
        replies_wanted: int = 1,
        *,
        connection: RespConnection | None = None,
        text: bool = False,
        dialled_from: str | None = None,
    ) -> None:
        self.connection = connection
        self.replies: list[object] = []
        self.failure: OSError | None = None
        self.elapsed_ms = 0.0
        self._address = address
        self._request = request
        self._wanted = replies_wanted
        self._text = text
        self._dialled_from = dialled_from
        self._began_s = 0.0

    @property
    def is_answered(self) -> bool:
        return len(self.replies) >= self._wanted

    @property
    def is_over(self) -> bool:
        return self.is_answered or self.failure is not None

    def begin(self) -> None:
        self._began_s = time.perf_counter()
        try:
            if self.connection is None:
                self.connection = RespConnection(self._address, text=self._text, dialled_from=self._dialled_from)
            self.connection.queue(self._request)
            self.connection.flush()
        except OSError as error:
            self.failure = error
            self.stop_clock()

    def advance(self) -> None:
        """Send and receive as far as it goes now."""
        assert self.connection is not None
        try:
            if self.connection.advance():
                self.replies.extend(self.connection.replies())
            self.connection.flush()
        except OSError as error:
            self.failure = error
        if self.is_over:
            self.stop_clock()

    def stop_clock(self) -> None:
        self.elapsed_ms = (time.perf_counter() - self._began_s) * 1000

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()


def exchange_all(exchanges: Iterable[Exchange], timeout_ms: float) -> None:
    """Carry out all of them at the same time, until each has finished or the time is up. The connections are left
    open."""
    poll = select.poll()
    pending: dict[int, Exchange] = {}
    for exchange in exchanges:
        exchange.begin()
        if exchange.connection is not None and not exchange.is_over:
            pending[exchange.connection.fd] = exchange
            poll.register(exchange.connection.fd, exchange.connection.wants)
    deadline_s = time.monotonic() + timeout_ms / 1000
    while pending and (left_ms := (deadline_s - time.monotonic()) * 1000) > 0:
        for fd, _ in poll.poll(left_ms):
            exchange = pending[fd]
            assert exchange.connection is not None
            exchange.advance()
            if exchange.is_over:
                del pending[fd]
                poll.unregister(fd)
            else:
                poll.modify(fd, exchange.connection.wants)
    for exchange in pending.values():
        exchange.stop_clock()


def ask(address: Address, *commands: Command, timeout_ms: float) -> list[Reply]:
    """Send the commands over a fresh connection and return their replies in order; an error reply is a value.

    Raises OSError (TimeoutError among them) if the server did not answer all of them within the time.
    """
    request = b"".join(encode(*command) for command in commands)
    exchange = Exchange(address, request, len(commands), text=True)
    try:
        exchange_all([exchange], timeout_ms)
    finally:
        exchange.close()
    if exchange.is_answered:
        return exchange.replies  # type: ignore[return-value]  # what hiredis makes of text
    raise exchange.failure or TimeoutError("timed out")


def config(address: Address, pattern: str = "*", *, timeout_ms: float) -> dict[str, str]:
    """`CONFIG GET pattern`. Raises OSError if the server does not answer."""
    (reply,) = ask(address, ("CONFIG", "GET", pattern), timeout_ms=timeout_ms)
    if not isinstance(reply, list):
        raise OSError(f"{address} answered CONFIG GET with {reply!r}")
    words = [str(word) for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))
