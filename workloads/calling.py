"""Which task of the process calls the lock, for whatever runs in that call: its thread, and what has its context.

A foreign lock in Python loads this file, too, so it needs nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class _Call:
    """`task`: that called; None when the call has ended."""

    task: str | None


_CALL: Final[ContextVar[_Call | None]] = ContextVar("call", default=None)


@contextmanager
def calling(task: str) -> Iterator[None]:
    """While this is entered, the task calls the lock."""
    call = _Call(task)
    _CALL.set(call)
    try:
        yield
    finally:
        call.task = None


def calling_task() -> str | None:
    """Whose call runs this code; None if it runs in none that is under way."""
    call = _CALL.get()
    return None if call is None else call.task
