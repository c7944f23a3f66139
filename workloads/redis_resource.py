"""The resource of a run: a Redis with fsync=always for this run alone.

No client library here: every client process would import all of it before it can begin, and its handshakes and retries
would only be switched off.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterable, Sequence
from hashlib import sha1
from time import monotonic, sleep
from typing import Final, cast

import hiredis
import msgspec

from fencepost.errors import BrokenEnvironmentError
from fencepost.history import Write
from workloads.connection import pack
from workloads.resource import ACCEPTED, STALE, StaleAccessError

WARM_UP_S: Final = 25.0
_READ_BYTES: Final = 1 << 16
_decode = msgspec.json.Decoder(Write).decode


class RedisResource:
    """`workloads.resource.Resource` over one connection, for one thread.

    Every method but `warm_up` raises OSError if the resource cannot be reached or its connection breaks (TimeoutError
    if it says nothing for `timeout_ms`), and `hiredis.ReplyError` if it answers with an error. After an OSError it
    is unknown what it did. The next request dials again.
    """

    def __init__(self, host: str, port: int, password: str | None, timeout_ms: float) -> None:
        self._address = host, port
        self._password = password
        self._timeout_s = timeout_ms / 1000
        self._connection: _Connection | None = None

    def warm_up(self, scripts: Iterable[str]) -> None:
        """Connect and load the scripts, so that no section pays for it. Many clients start at the same time, so there
        is time for it. Raises BrokenEnvironmentError if the resource does not answer."""
        deadline_s = monotonic() + WARM_UP_S
        while True:
            try:
                self._ask("PING")
                for script in scripts:
                    self._ask("SCRIPT", "LOAD", script)
            except OSError as error:
                if monotonic() >= deadline_s:
                    raise BrokenEnvironmentError(
                        f"the resource does not answer within {WARM_UP_S:g} s: {error}"
                    ) from error
                sleep(0.05)  # a refused connection fails at once
            else:
                return

    def run(self, script: str, keys: Sequence[str], args: Sequence[object]) -> object:
        words = [str(len(keys)), *keys, *cast(Sequence[str], args)]
        try:
            try:
                return self._ask("EVALSHA", sha1(script.encode(), usedforsecurity=False).hexdigest(), *words)
            except hiredis.ReplyError as error:
                if not str(error).startswith("NOSCRIPT"):
                    raise
            return self._ask("EVAL", script, *words)
        except hiredis.ReplyError as error:
            if str(error).startswith(STALE):
                raise StaleAccessError(str(error)) from None
            raise

    def accepted_since(self, count: int) -> list[Write]:
        """The accepted writes after the first `count` ones, oldest first."""
        return [_decode(line) for line in cast(list[str], self._ask("LRANGE", ACCEPTED, count, -1))]

    def close(self) -> None:
        """Forget the connection; the next request makes a new one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _ask(self, *words: str | int) -> object:
        if self._connection is not None and self._connection.has_ended():
            self.close()
        try:
            if self._connection is None:
                self._connection = _Connection(self._address, self._password, self._timeout_s)
            return self._connection.ask(*words)
        except hiredis.ReplyError:
            raise
        except BaseException:
            self.close()  # a reply that comes late must not be taken for the answer to a later request
            raise


class _Connection:
    """A connection that blocks. Raises what `RedisResource` does."""

    def __init__(self, address: tuple[str, int], password: str | None, timeout_s: float) -> None:
        self._reader = hiredis.Reader(notEnoughData=Ellipsis, encoding="utf-8")
        self._arrived = select.poll()
        self._socket = socket.create_connection(address, timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._arrived.register(self._socket, select.POLLIN)
            if password is not None:
                self.ask("AUTH", password)
        except BaseException:
            self.close()
            raise

    def has_ended(self) -> bool:
        """Whether it was closed while nothing was asked, or sends an unrequested reply."""
        return bool(self._arrived.poll(0))

    def ask(self, *words: str | int) -> object:
        """Send a request and wait for its reply."""
        self._socket.sendall(pack(*words))
        try:
            while (reply := self._reader.gets()) is Ellipsis:
                if not (received := self._socket.recv(_READ_BYTES)):
                    raise ConnectionResetError("the resource closed the connection")
                self._reader.feed(received)
        except hiredis.ProtocolError as error:
            raise ConnectionAbortedError(f"the resource does not speak Redis's protocol: {error}") from None
        if isinstance(reply, hiredis.ReplyError):
            raise reply
        return reply

    def close(self) -> None:
        self._socket.close()
