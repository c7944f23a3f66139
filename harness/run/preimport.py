"""Import modules in a background thread, so that no later step waits for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Event, Thread


@contextmanager
def imported_meanwhile(modules: Sequence[str]) -> Iterator[None]:
    """Import them, one after the other, while the block runs. What cannot be imported is told where it is needed.

    When the block ends, no other module is begun: a program ends only when its threads have, and who was asked to end
    may not need these modules any more.
    """
    is_over = Event()
    Thread(target=_import, args=(modules, is_over), name="meanwhile").start()
    try:
        yield
    finally:
        is_over.set()


def _import(modules: Sequence[str], is_over: Event) -> None:
    for module in modules:
        if is_over.is_set():
            return
        with suppress(BaseException):
            import_module(module)
