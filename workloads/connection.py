"""Warm connections to the nodes: one request to many nodes, each node's reply or none, within a time limit.

Requests go out to all nodes first and the replies are read as they come, with one `poll` and no threads: the
multiplexing that the Redis documentation asks of Redlock ("send all the commands, and read all the commands later").

A late reply is never taken for the answer to a later request. Redis answers a connection's requests in their order, so
a connection only has to count the replies that it still owes to requests that were given up, and to throw away as many.
The connection is kept, because order is worth something: when a link that held its bytes heals, a SET that was given up
reaches its node *before* the release that was sent after it. A connection that owes too much, breaks, or says what
is not Redis's protocol is closed, and dialled again by the next request, within that request's time limit.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import select
import socket
import time
from collections.abc import Sequence
from typing import Final

import hiredis

from workloads.base import NodeAddress

MAX_OWED: Final = 64
"""How many replies may be missing on one connection before it is given up."""

_READ_BYTES: Final = 65_536


class Silence(enum.Enum):
    """The node did not answer in time, or could not be reached: what it did is unknown."""

    SILENT = "silent"


SILENT: Final = Silence.SILENT

Reply = bytes | int | list[object] | None | hiredis.ReplyError | Silence
"""What a node said, as hiredis parses it (an error of the server is a value too), or `SILENT`."""


def pack(*words: str | bytes | int) -> bytes:
    """A request as it goes over the wire."""
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]  # its stub means a tuple of any length
    return packed


class Connection:
    """The connection to one node. Its methods return at once, but for `wait`."""

    def __init__(self, address: NodeAddress, poller: select.poll, by_fd: dict[int, Connection]) -> None:
        self.address = address
        self.reply: Reply = SILENT
        self.waiting = False
        """Whether the reply to the newest request is still to come."""
        self._poller = poller
        self._by_fd = by_fd
        self.connecting = False
        """Whether the connection is being made; its request leaves when it is made."""
        self._socket: socket.socket | None = None
        self._readable = select.poll()
        self._unsent = b""
        self._stale = 0
        self._reader = hiredis.Reader()
        self._greeting = b"" if address.password is None else pack("AUTH", address.password)
        """Goes ahead of the first request; its reply is owed, like one that was given up."""

    def send(self, request: bytes) -> None:
        """Put the request on its way, over a new connection if there is none."""
        if self.waiting:
            self.owe()
        self.waiting = True
        self.reply = SILENT
        if self._stale >= MAX_OWED:
            self.close()
            self.waiting = True
        if self._socket is None and not self.dial():
            self.waiting = False
            return
        if self.connecting:
            self._unsent = request
        else:
            self._write(request)

    def owe(self) -> None:
        """The reply that is still missing belongs to a request that was given up: throw it away when it comes."""
        self._stale += 1

    def give_up(self) -> None:
        """Stop waiting. A request that never left is dropped; the reply to one that did is discarded when it comes."""
        if self.connecting:
            self._unsent = b""
            self.waiting = False

    def on_event(self, event: int) -> None:
        """The poller saw something on this connection: late replies, perhaps, and its end behind them."""
        if self.connecting:
            self._finish_dialling(event)
        else:
            while self.receive():
                pass

    def wait(self, timeout_ms: float) -> None:
        """Until something can be received, or the time is over: the one method here that does not return at once."""
        self._readable.poll(timeout_ms)

    def receive(self) -> bool:
        """Take what has come; False: nothing has. Closes the connection if it ended or makes no sense."""
        if self._socket is None or self.connecting:
            return False
        try:
            data = self._socket.recv(_READ_BYTES)
            self._reader.feed(data)
            while data and (reply := self._reader.gets()) is not False:
                if self._stale:
                    self._stale -= 1
                elif self.waiting:
                    self.reply, self.waiting = reply, False
                else:
                    data = b""  # an unrequested answer: whatever talks there is not a Redis
        except BlockingIOError:
            return False
        except (OSError, hiredis.HiredisError):
            data = b""
        if not data:
            self.close()
        return True

    def dial(self) -> bool:
        """Begin to connect; False: refused at once."""
        family = socket.AF_INET6 if ":" in self.address.host else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = connection.connect_ex((self.address.host, self.address.port))
        if code not in (0, errno.EINPROGRESS):
            connection.close()
            return False
        self._socket, self.connecting = connection, True
        self._by_fd[connection.fileno()] = self
        self._poller.register(connection, select.POLLOUT)
        return True

    def close(self) -> None:
        """Forget the connection and everything that it owes."""
        if self._socket is not None:
            with contextlib.suppress(KeyError, OSError):
                self._poller.unregister(self._socket)
            self._by_fd.pop(self._socket.fileno(), None)
            self._socket.close()
        self._socket, self.connecting = None, False
        self._unsent, self._stale, self.waiting = b"", 0, False
        self._reader = hiredis.Reader()

    def _finish_dialling(self, event: int) -> None:
        assert self._socket is not None
        failed = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
        if failed or event & (select.POLLERR | select.POLLNVAL):
            self.close()
            return
        self.connecting = False
        self._poller.modify(self._socket, select.POLLIN)
        self._readable = select.poll()
        self._readable.register(self._socket, select.POLLIN)
        request, self._unsent = self._unsent, b""
        if self._greeting:
            self.owe()
        if self._greeting or request:
            self._write(self._greeting + request)

    def _write(self, request: bytes) -> None:
        assert self._socket is not None
        try:
            sent = self._socket.send(request)
        except OSError:
            sent = -1
        if sent != len(request):
            # A full socket buffer means a link that has been hung for long; half a request must never be continued
            # by another one.
            self.close()


class ConnectionPool:
    """The connections to all nodes. Connects at once; a node that cannot be reached now is dialled again later."""

    def __init__(
        self, nodes: Sequence[NodeAddress], timeout_ms: float, connection: type[Connection] = Connection
    ) -> None:
        self.timeout_ms = timeout_ms
        self._poller = select.poll()
        self._by_fd: dict[int, Connection] = {}
        self._pool = [connection(node, self._poller, self._by_fd) for node in nodes]
        self._warm_up()

    def __len__(self) -> int:
        return len(self._pool)

    @property
    def owing(self) -> int:
        """How many nodes have not answered what they were asked last."""
        return sum(connection.waiting for connection in self._pool)

    @property
    def answered(self) -> int:
        """How many nodes have answered what they were asked last."""
        return sum(connection.reply is not SILENT for connection in self._pool)

    def ask(self, request: bytes, only: int | None = None, patient: bool = True) -> list[Reply]:
        """Send the request to all nodes (or to the one at the index `only`) and wait for the replies, at most
        `timeout_ms` in all. Unless `patient`, a node that still owes an earlier reply is not waited for: it gets the
        request, behind the earlier one, but has been waited for already.

        Returns a reply for each node that was asked, in the nodes' order; `SILENT` where there was none.
        """
        self._clear()
        deadline_ns = time.monotonic_ns() + int(self.timeout_ms * 1e6)
        asked = self._pool if only is None else [self._pool[only]]
        awaited = asked if patient else [connection for connection in asked if not connection.waiting]
        for connection in asked:
            connection.send(request)
        self._finish_dialling(awaited, deadline_ns)
        # One after the other, however long one is silent: the others' replies are kept by the kernel meanwhile, and all
        # are waited for anyway. This wakes up less often than waiting for whichever comes next.
        for connection in awaited:
            while connection.waiting:
                came = connection.receive()
                left_ms = (deadline_ns - time.monotonic_ns()) / 1e6
                if left_ms <= 0:
                    break
                if not came:
                    connection.wait(left_ms)
        replies = [connection.reply for connection in asked]
        for connection in asked:
            connection.give_up()
        return replies

    def close(self) -> None:
        for connection in self._pool:
            connection.close()

    def _clear(self) -> None:
        """Throw away late replies and find out which connections have ended, before anything new is sent."""
        self._poll(0)

    def _finish_dialling(self, awaited: Sequence[Connection], deadline_ns: int) -> None:
        """Until every connection that is being made has either carried its request away, or failed, or had its time."""
        while any(connection.connecting for connection in awaited):
            left_ms = (deadline_ns - time.monotonic_ns()) / 1e6
            if left_ms <= 0:
                return
            self._poll(left_ms)

    def _poll(self, timeout_ms: float) -> None:
        """Handle what has happened by now, or wait for something."""
        for fd, event in self._poller.poll(timeout_ms):
            connection = self._by_fd.get(fd)
            if connection is not None:
                connection.on_event(event)

    def _warm_up(self) -> None:
        """Connect everywhere and let each connection carry its first bytes, which cost more than later ones."""
        self.ask(pack("PING"))
