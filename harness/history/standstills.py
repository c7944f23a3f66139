"""When a node certainly did nothing: it was down, or stopped. What nobody saw there then did not happen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from fencepost.history import FaultEvent
from harness.history.fault_windows import FOREVER_NS, windows


@dataclass(frozen=True, slots=True)
class Standstills:
    """By node, the times (from, to), in no particular order. If a second fault hits the node meanwhile, each lasts only
    until the first of the two began to be healed: a node that was killed while it was stopped comes back running."""

    by_node: dict[str, list[tuple[int, int]]]

    @classmethod
    def of(cls, faults: Iterable[FaultEvent]) -> Self:
        faults = tuple(faults)
        wakes: defaultdict[str, list[FaultEvent]] = defaultdict(list)
        for event in faults:
            if event.event != "injected":
                for node in event.nodes:
                    wakes[node].append(event)
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for window in windows(faults):
            if not window.took or window.event.answers_errors:
                continue
            for node in window.event.nodes:
                wake = (event.began_ns for event in wakes[node] if event.done_ns > window.from_ns)
                until = min(wake, default=FOREVER_NS if window.to_ns is None else window.to_ns)
                if until > window.from_ns:
                    found[node].append((window.from_ns, until))
        return cls(dict(found))

    def until(self, node: str, at_ns: int) -> int:
        """Until when the node did nothing if it stood still at that time; else that time."""
        return max((b for a, b in self.by_node.get(node, ()) if a <= at_ns < b), default=at_ns)
