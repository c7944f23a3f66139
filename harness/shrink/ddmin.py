"""Delta debugging: which of these things are needed?

Zeller and Hildebrandt's ddmin ("Simplifying and isolating failure-inducing input", 2002), with its complements only:
whole chunks are left out, first halves, then quarters, and in the end one thing at a time. To try a chunk alone too,
as the paper does, rarely pays where every test is a run of some seconds. Chunks are tried from the back, as shrinkers
of commands do: what came late has most likely nothing to do with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], shows: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Some of `items`, in their order, that `shows` says yes to, and no more to when any one of them is left out.

    `items` themselves are taken to show. `shows` is asked about fewer and fewer of them, in the end perhaps about none
    at all; each yes is final, so whatever it raises, the last yes was the best so far.
    """
    kept = tuple(items)
    size = max(1, len(kept) // 2)
    while kept:
        count = len(kept)
        for begin in reversed(range(0, count, size)):
            rest = kept[:begin] + kept[begin + size :]
            if shows(rest):
                kept = rest
        if size == 1 and len(kept) == count:
            break
        size = min(max(1, size // 2), max(1, len(kept) // 2))
    return kept


def least(low: int, high: int, step: int, shows: Callable[[int], bool]) -> int:
    """The least number from `low` to `high` that shows, found by bisection to within `step` or a fifth of it.

    `high` is taken to show. Meant for what shows from some number on; else it is one of those that do.
    """
    if low >= high or shows(low):
        return min(low, high)
    while high - low > max(step, high // 5):
        middle = (low + high) // 2 // step * step
        if not low < middle < high:
            break
        if shows(middle):
            high = middle
        else:
            low = middle
    return high
