"""Delta debugging: which of these things are needed?

Zeller and Hildebrandt's ddmin ("Simplifying and isolating failure-inducing input", 2002), restricted to complements: it
removes whole chunks, first halves, then quarters, and finally one thing at a time. The paper also tests each chunk
alone; that rarely pays when every test is a run of some seconds. Chunks are removed from the back, as in shrinkers of
command sequences: what came last is most likely irrelevant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], shows: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """A subset of `items`, in order, for which `shows` is true, and false if any one item is removed.

    Assumes that `items` itself shows. Calls `shows` with ever smaller subsets, perhaps with the empty one. Each true is
    final: if `shows` raises, the subset with the last true was the best so far.
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

    Assumes that `high` shows. If `shows` is not monotone, the result is some number that shows.
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
