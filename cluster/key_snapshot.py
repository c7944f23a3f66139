"""See which nodes hold which live keys, read-only and straight from the nodes, every few milliseconds if need be.

One request a node, all nodes at the same time, over connections that are kept. A node that does not answer in time is
left out, its connection is closed and dialled again by the next look, so no late reply is taken for a later one.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import time
from collections.abc import Mapping
from typing import Self

import hiredis

from cluster.base import Address, Cluster
from cluster.probe import MARK_PREFIX
from cluster.resp import encode

Holdings = Mapping[str, Mapping[str, bytes | None]]
"""By node, for those that answered: the live keys and their values (None for one that is no string)."""

_MOST_KEYS = 5_000
_LOOK = f"""
local keys = redis.call('KEYS', '*')
if #keys == 0 or #keys > {_MOST_KEYS} then return {{}} end
return {{keys, redis.call('MGET', unpack(keys))}}
"""
_REQUEST = encode("EVAL", _LOOK, 0)
_READ_BYTES = 65_536


class KeyReader:
    """Looks at all nodes of a cluster. A context manager that closes its connections."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes = {name: _Connection(node.address) for name, node in cluster.nodes.items()}

    def look(self, timeout_ms: float = 30) -> Holdings:
        """What each node that answers within the time holds right now; marks of probes are left out."""
        poll = select.poll()
        pending: dict[int, str] = {}
        held: dict[str, dict[str, bytes | None]] = {}
        for name, connection in self._nodes.items():
            if (fd := connection.ask()) is not None:
                pending[fd] = name
                poll.register(fd, connection.wants)
        deadline = time.monotonic() + timeout_ms / 1000
        while pending and (left_ms := (deadline - time.monotonic()) * 1000) > 0:
            for fd, _ in poll.poll(left_ms):
                connection = self._nodes[pending[fd]]
                reply = connection.advance()
                if reply is None and connection.is_open:
                    poll.modify(fd, connection.wants)
                    continue
                name = pending.pop(fd)
                with contextlib.suppress(KeyError, OSError):
                    poll.unregister(fd)
                if reply is not None:
                    held[name] = reply
        for name in pending.values():
            self._nodes[name].close()
        return held

    def close(self) -> None:
        for connection in self._nodes.values():
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Connection:
    """To one node: dialled, written to and read from without ever waiting."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._unsent = b""
        self._reader = hiredis.Reader(notEnoughData=Ellipsis)

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    @property
    def wants(self) -> int:
        """What to poll for."""
        return select.POLLOUT if self._unsent else select.POLLIN

    def ask(self) -> int | None:
        """Begin to ask; the descriptor to poll, or None if the node cannot be reached."""
        if self._socket is None:
            self._reader = hiredis.Reader(notEnoughData=Ellipsis)
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._socket.connect_ex(self._address) not in (0, errno.EINPROGRESS):
                self.close()
                return None
        self._unsent = _REQUEST
        return self._socket.fileno()

    def advance(self) -> dict[str, bytes | None] | None:
        """Send and read as far as it goes; the answer once it is there. Closed afterwards if something is wrong."""
        assert self._socket is not None
        try:
            if self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
                return None
            received = self._socket.recv(_READ_BYTES)
            if not received:
                self.close()
                return None
            self._reader.feed(received)
            reply = self._reader.gets()
        except BlockingIOError:
            return None
        except (OSError, hiredis.HiredisError):
            self.close()
            return None
        if reply is Ellipsis:
            return None
        if not isinstance(reply, list):  # an error: the node is still loading, or is no Redis
            self.close()
            return None
        keys, values = reply or ([], [])
        named = ((key.decode(errors="replace"), value) for key, value in zip(keys, values, strict=True))
        return {key: value for key, value in named if not key.startswith(MARK_PREFIX)}

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._unsent = None, b""
