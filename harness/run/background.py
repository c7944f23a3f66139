"""Threads that work in the background for the length of a `with` block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module


@contextmanager
def beside(work: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    """Run `work` in a thread while the block runs. The event tells it that the block is over; it is then waited for."""
    is_over = threading.Event()
    thread = threading.Thread(target=work, args=(is_over,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def imported_meanwhile(modules: Sequence[str]) -> Iterator[None]:
    """Import them, one after the other, while the block runs. What cannot be imported is told where it is needed.

    When the block ends, no other module is begun: a program ends only when its threads have, and who was asked to end
    may not need these modules any more.
    """
    is_over = threading.Event()
    threading.Thread(target=_import, args=(modules, is_over), name="meanwhile").start()
    try:
        yield
    finally:
        is_over.set()


def _import(modules: Sequence[str], is_over: threading.Event) -> None:
    for module in modules:
        if is_over.is_set():
            return
        with suppress(BaseException):
            import_module(module)
