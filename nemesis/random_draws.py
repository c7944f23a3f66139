"""Random choices that come out the same on every machine and every Python.

Of `random.Random` only seeding and `random()` are promised to stay as they are; `choice`, `sample` and `shuffle` may
change between versions, and `log` and `exp` differ between C libraries in the last bit. So every draw is made here,
from `random()` and the four basic operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def below(rng: Random, n: int) -> int:
    """An integer from 0 to n − 1, each as likely."""
    return int(rng.random() * n)


def one_of(rng: Random, items: Sequence[T]) -> T:
    """One of the items, each as likely."""
    return items[below(rng, len(items))]


def weighted(rng: Random, weights: Mapping[T, int]) -> T:
    """One of the keys, as likely as its weight says."""
    at = below(rng, sum(weights.values()))
    for item, weight in weights.items():
        if at < weight:
            return item
        at -= weight
    raise AssertionError("weights do not add up")


def shuffled(rng: Random, items: Sequence[T]) -> list[T]:
    """All items in a random order (Fisher and Yates)."""
    result = list(items)
    for i in range(len(result) - 1, 0, -1):
        j = below(rng, i + 1)
        result[i], result[j] = result[j], result[i]
    return result


def some(rng: Random, items: Sequence[T], count: int) -> tuple[T, ...]:
    """`count` of the items, in their own order."""
    kept = set(shuffled(rng, range(len(items)))[:count])
    return tuple(item for i, item in enumerate(items) if i in kept)


def a_few(rng: Random, items: Sequence[T]) -> tuple[T, ...]:
    """From one to a third of the items, in their own order."""
    return some(rng, items, 1 + below(rng, max(1, len(items) // 3)))


def between(rng: Random, low: float, high: float) -> float:
    """Uniform from low to high."""
    return low + (high - low) * rng.random()


def jittered(rng: Random, mean: float) -> int:
    """An integer around the mean, at most half of it away."""
    return round(mean * (0.5 + rng.random()))


def by_octaves(rng: Random, low: float, high: float) -> float:
    """From low to high, each doubling as likely as the next and uniform within it: log-uniform without a logarithm."""
    if low <= 0 or low >= high:
        return between(rng, low, high)
    octaves, end = 0, low
    while end * 2 <= high:
        octaves, end = octaves + 1, end * 2
    at = rng.random() * (octaves + (high / end - 1))
    whole = int(at)
    return low * (1 << whole) * (1 + at - whole)


def rotated(items: Sequence[T], first: int) -> tuple[T, ...]:
    """All items in their own order, from the one with this drawn number on."""
    begin = first % len(items)
    return (*items[begin:], *items[:begin])
