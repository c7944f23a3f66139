"""Intervals in which a fault is known to have stopped a node or taken it down, so an unobserved change is impossible.

What was only noticed is not certain: a server that does not answer may be at work. Nor is a fault that was never seen
to be healed: what failed to heal it may have started the node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from fencepost.history import FaultEvent
from harness.history.fault_windows import FOREVER_NS, windows
from harness.history.groups import grouped


@dataclass(frozen=True, slots=True)
class Standstills:
    """By node, when each began and when it ended, in order. If its end is not after its beginning, it is not certain
    for any time. Each ends as soon as anything else was done to the node: one that was killed while it was stopped
    comes back running, and a stopped one is woken to shut down."""

    by_node: dict[str, list[tuple[int, int]]]

    @classmethod
    def of(cls, faults: Iterable[FaultEvent]) -> Self:
        faults = tuple(faults)
        on_node = grouped((node, event) for event in faults for node in event.nodes)
        changes = {node: _Changes(events) for node, events in on_node.items()}
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for window in windows(faults):
            event = window.event
            if window.to_ns is None or not window.took or event.unplanned or event.answers_errors:
                continue
            for node in event.nodes:
                found[node].append((window.from_ns, min(window.to_ns, changes[node].first_after(window.from_ns))))
        return cls({node: sorted(times) for node, times in found.items()})

    def until(self, node: str, at_ns: int) -> int:
        """Until when the node did nothing if it stood still at that time; else that time."""
        times = self.by_node.get(node, [])
        place = bisect_right(times, (at_ns, FOREVER_NS)) - 1
        return max(at_ns, times[place][1]) if place >= 0 else at_ns


class _Changes:
    """When faults were injected on one node, healed, or undone from outside."""

    def __init__(self, events: Iterable[FaultEvent]) -> None:
        in_order = sorted((event.done_ns, event.began_ns) for event in events)
        self._done = [done_ns for done_ns, _ in in_order]
        from_there = accumulate((began_ns for _, began_ns in reversed(in_order)), min, initial=FOREVER_NS)
        self._first = list(from_there)[::-1]

    def first_after(self, at_ns: int) -> int:
        """When the first of those began that were done later than that; one may have begun before."""
        return self._first[bisect_right(self._done, at_ns)]
