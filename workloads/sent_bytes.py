"""Counts the bytes that leave each TCP socket of this process, and tells before those of another task of it leave.

What is sent in a call of the lock is of the task that called, also if a coroutine, a thread or a job of a pool sends it
that the call began. What they send when the call is over, and what the lock's other threads send, is of no task: it may
be for any of them.

A foreign lock in Python, which cannot import fencepost, loads this file (`workloads/adapters/python/`), so it needs
nothing but the standard library.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

_SENDALL: Final = socket.socket.sendall
_TCP: Final = (socket.AF_INET, socket.AF_INET6)


@dataclass(slots=True)
class _Sent:
    """What has left a socket: how many bytes, and of which task the last ones are. `turn`: held while one thread sends.
    `is_clear`: the number and the senders are known."""

    port: int
    number: int = 0
    task: str | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)
    is_clear: bool = True


def _start_in_call(self: threading.Thread, *, start: Any = threading.Thread.start) -> None:
    self.run = partial(copy_context().run, self.run)  # type: ignore[method-assign]
    start(self)


def _submit_in_call(
    self: ThreadPoolExecutor, job: Any, /, *of: Any, submit: Any = ThreadPoolExecutor.submit, **named: Any
) -> Future[Any]:
    job_in_call: Future[Any] = submit(self, copy_context().run, job, *of, **named)
    return job_in_call


class SentBytes:
    """Calls `note` while it is entered, with the port of the socket, how many bytes had left it, and the task whose
    bytes leave next; `task_now`: which task's call runs this code, or None. A thread that sends gets what `note`
    raises."""

    def __init__(self, note: Callable[[int, int, str | None], object], task_now: Callable[[], str | None]) -> None:
        self._note_that, self._task_now = note, task_now
        self._sent: WeakKeyDictionary[socket.socket, _Sent] = WeakKeyDictionary()
        self._replaced = ExitStack()

    def __enter__(self) -> Self:
        for name in ("send", "sendall", "sendmsg"):
            self._replace(socket.socket, name, self._noting(getattr(socket.socket, name)))
        self._replace(threading.Thread, "start", _start_in_call)
        self._replace(ThreadPoolExecutor, "submit", _submit_in_call)
        return self

    def __exit__(self, *error: object) -> None:
        self._replaced.close()

    def _replace(self, of: type, name: str, method: Any) -> None:
        self._replaced.callback(setattr, of, name, getattr(of, name))
        setattr(of, name, method)

    def _noting(self, send: Callable[..., int | None]) -> Callable[..., int | None]:
        """The method, with a note before bytes of another task leave. `send` and `sendmsg` return how many left, and
        none did if they fail; `sendall` returns None, and if it fails the number is not known."""

        def noting(through: socket.socket, what: Any, *more: Any) -> int | None:
            if (sent := self._of(through)) is None:
                return send(through, what, *more)
            is_alone = sent.turn.acquire(blocking=False)
            try:
                sent.is_clear &= is_alone  # of two threads at once it is not known whose bytes leave first
                self._note(sent, self._task_now() if sent.is_clear else None)
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
            self._note_that(sent.port, sent.number, task)
            sent.task = task
