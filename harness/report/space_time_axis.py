"""How far down a space-time diagram a moment is: what happens in a µs beside what takes a second.

The order of all moments is kept, and a longer time never looks shorter than another one, but a time grows with the
logarithm of its length only. A long one in which nothing happens is marked as a break.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

_LEAST: Final = 4.0
_GROWTH: Final = 4.0
"""How much longer a time looks that is twice as long, in pixels."""
_UNIT_NS: Final = 50_000
_BREAK_NS: Final = 20_000_000
_MOST_DOUBLINGS: Final = 14


class Break(NamedTuple):
    """A quiet time: where it is, in pixels, and how long."""

    y: float
    length_ns: int


class Axis:
    """Maps times to pixels below `top`. `moments`: what happens; other times lie in proportion between these. `room`:
    how many pixels must be free above a moment, for its label."""

    def __init__(self, moments: Iterable[int], top: float, room: Mapping[int, float] | None = None) -> None:
        self._times = sorted(set(moments))
        self._ys = [top]
        self.breaks: list[Break] = []
        for before, after in zip(self._times, self._times[1:], strict=False):
            length = after - before
            step = _LEAST + _GROWTH * min(math.log2(1 + length / _UNIT_NS), _MOST_DOUBLINGS)
            step = max(step, (room or {}).get(after, 0))
            if length > _BREAK_NS:
                self.breaks.append(Break(self._ys[-1] + step / 2, length))
            self._ys.append(self._ys[-1] + step)

    @property
    def bottom(self) -> float:
        return self._ys[-1]

    def y(self, at_ns: int) -> float:
        """Times before the first moment and after the last one are at the ends."""
        place = bisect_right(self._times, at_ns)
        if place == 0:
            return self._ys[0]
        if place == len(self._times):
            return self._ys[-1]
        since, until = self._times[place - 1], self._times[place]
        share = (at_ns - since) / (until - since)
        return self._ys[place - 1] + share * (self._ys[place] - self._ys[place - 1])
