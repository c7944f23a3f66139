"""Which task of a client process sends what over which connection, as the process itself records it.

The proxy sees bytes, not which of several tasks sent them. So before bytes of another task leave a socket, its process
notes how many had left it until then. The proxy knows the connection by its port, and counts the same bytes
(`harness.store.wire_senders`). What is sent in a call of the lock, also by a coroutine that the call began in an event
loop, is of the task that called. What the lock's own threads send, or a coroutine that outlives the call which began
it, is of no task: it may be for any of them.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

from fencepost.history import Sender
from workloads.recorder import Recorder

_SENDALL: Final = socket.socket.sendall
_TCP: Final = (socket.AF_INET, socket.AF_INET6)


@dataclass(slots=True)
class _Call:
    """`task`: that called the lock; None when the call has ended."""

    task: str | None


_CALL: Final[ContextVar[_Call | None]] = ContextVar("call", default=None)


def _task() -> str | None:
    call = _CALL.get()
    return None if call is None else call.task


@contextmanager
def calling(task: str) -> Iterator[None]:
    """While this is entered, the task calls the lock."""
    call = _Call(task)
    _CALL.set(call)
    try:
        yield
    finally:
        call.task = None


@dataclass(slots=True)
class _Sent:
    """What has left a socket: how many bytes, and of which task the last ones are. `turn`: held while one thread sends.
    `is_clear`: the number and the senders are known."""

    port: int
    number: int = 0
    task: str | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)
    is_clear: bool = True


class SenderLog:
    """Notes who sends what leaves this process over TCP, while it is entered. A thread that sends gets
    BrokenEnvironmentError when the disk is full."""

    def __init__(self, path: Path) -> None:
        self._record = Recorder(path)
        self._sent: WeakKeyDictionary[socket.socket, _Sent] = WeakKeyDictionary()
        self._noted = {name: self._noting(getattr(socket.socket, name)) for name in ("send", "sendall", "sendmsg")}

    def __enter__(self) -> Self:
        for name, send in self._noted.items():
            setattr(socket.socket, name, send)
        return self

    def __exit__(self, *error: object) -> None:
        for name in self._noted:
            delattr(socket.socket, name)  # there is one of the same name in its base class
        self._record.close()

    def _noting(self, send: Callable[..., int | None]) -> Callable[..., int | None]:
        """The method, with a note before bytes of another task leave. `send` and `sendmsg` return how many left, and
        none did if they fail; `sendall` returns None, and if it fails the number is not known."""

        def noting(through: socket.socket, what: Any, *more: Any) -> int | None:
            if (sent := self._of(through)) is None:
                return send(through, what, *more)
            is_alone = sent.turn.acquire(blocking=False)
            try:
                sent.is_clear &= is_alone  # of two threads at once it is not known whose bytes leave first
                self._note(sent, _task() if sent.is_clear else None)
                number = send(through, what, *more)
                sent.number += memoryview(what).nbytes if number is None else number
            except BaseException:
                sent.is_clear &= send is not _SENDALL
                raise
            finally:
                if is_alone:
                    sent.turn.release()
            return number

        return noting

    def _of(self, through: socket.socket) -> _Sent | None:
        if (sent := self._sent.get(through)) is None and through.family in _TCP:
            sent = self._sent[through] = _Sent(through.getsockname()[1])
        return sent

    def _note(self, sent: _Sent, task: str | None) -> None:
        if task != sent.task:
            self._record(Sender(monotonic_ns(), sent.port, sent.number, task))
            sent.task = task
