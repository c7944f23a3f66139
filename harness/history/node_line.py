"""The values that one node held of one key, in the node's order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from harness.history.groups import grouped
from harness.history.held_keys import HeldKey


@dataclass(frozen=True, slots=True)
class NodeLine:
    """`of_section`: the places of the values that were set for each section. `reach`: the latest moment at which one of
    the values up to here may still have been there."""

    every: list[HeldKey]
    of_section: dict[int, list[int]]
    from_min: list[int]
    reach: list[int]

    @classmethod
    def of(cls, rows: Iterable[HeldKey]) -> NodeLine:
        """From what one node held of one lock key. If it is several keys there, a holding of one that was found by
        looking may have begun before one of another that was noticed first."""
        every = sorted(rows, key=lambda one: one.from_min_ns)
        of_section = grouped((one.section, place) for place, one in enumerate(every))
        reach = accumulate((one.to_max_ns for one in every), max)
        return cls(every, of_section, [one.from_min_ns for one in every], list(reach))

    @property
    def unread(self) -> list[HeldKey]:
        """Those whose value was gone before it could be read."""
        return [one for one in self.every if one.value is None]

    def _touching(self, start: int, until: int) -> range:
        return range(bisect_left(self.reach, start), bisect_right(self.from_min, until))

    def perhaps(self, client: str, start: int, until: int) -> list[HeldKey]:
        """What touches this time, and this process set, or of which it is not known which one did. Which of its tasks
        and calls did is not asked: a request may leave its client late, and what a client finds of its own it may hold
        once more."""
        there = (self.every[place] for place in self._touching(start, until))
        return [one for one in there if one.setter in (None, client)]

    def own(self, section: int, client: str, start: int, until: int) -> list[HeldKey]:
        """The holdings that were set for the section, and those of its process that another call had set, and that may
        have been set anew in this time, or given more."""
        again = {
            place
            for place in self._touching(start, until)
            if self.every[place].setter == client and self.every[place].may_be_set_anew(start, until)
        }
        return [self.every[place] for place in sorted(again.union(self.of_section.get(section, ())))]
