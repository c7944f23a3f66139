"""Times that something lasted, and the longest of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar


class Lasting(Protocol):
    @property
    def since_ns(self) -> int: ...

    @property
    def length_ns(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """From when until when."""

    since_ns: int
    until_ns: int

    @property
    def length_ns(self) -> int:
        return self.until_ns - self.since_ns


L = TypeVar("L", bound=Lasting)


def in_order(found: Iterable[L]) -> list[L]:
    return sorted(found, key=lambda one: one.since_ns)


def longest(found: Iterable[L]) -> L:
    """The first one of those that lasted longest. Raises ValueError if there is none."""
    return max(found, key=lambda one: one.length_ns)


def longest_ms(found: Iterable[Lasting]) -> float | None:
    """How long that lasted; None if there is none."""
    return max((one.length_ns / 1e6 for one in found), default=None)
