"""Make several calls at the same moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(calls: Iterable[Callable[[], T]], *, at_most: int | None = None) -> list[T]:
    """Make the calls concurrently, each in its own thread (`at_most` of them at a time), wait for all of them, and
    return their results in order. If some raise, the first error in their order is raised, after all have ended."""
    waiting = list(calls)
    with ThreadPoolExecutor(min(at_most or len(waiting), len(waiting)) or 1, thread_name_prefix="at-once") as pool:
        under_way = [pool.submit(call) for call in waiting]
    return [call.result() for call in under_way]
