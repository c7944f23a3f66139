"""Intervals in which a fault is known to have stopped a node or taken it down, so an unobserved change is impossible.

What was only noticed is not certain: a server that does not answer may be at work. Nor is a fault that was never seen
to be healed: what failed to heal it may have started the node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
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
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for window in windows(faults):
            event = window.event
            if window.to_ns is None or not window.took or event.unplanned or event.answers_errors:
                continue
            for node in event.nodes:
                later = (other.began_ns for other in on_node[node] if other.done_ns > window.from_ns)
                found[node].append((window.from_ns, min(window.to_ns, *later)))
        return cls({node: sorted(times) for node, times in found.items()})

    def until(self, node: str, at_ns: int) -> int:
        """Until when the node did nothing if it stood still at that time; else that time."""
        times = self.by_node.get(node, [])
        place = bisect_right(times, (at_ns, FOREVER_NS)) - 1
        return max(at_ns, times[place][1]) if place >= 0 else at_ns
