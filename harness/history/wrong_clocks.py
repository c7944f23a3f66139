"""When a node's wrong clock may have made keys live longer or shorter than their lock asked for, and when a client's
wrong clock may have misled it.

Keys may have from the moment at which a fault may have set the clock, until a lease time after it was right again and
what the clock may have been off by then: a key that was set by a fast clock lives on by a right one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fencepost.history import FaultEvent
from harness.history.fault_windows import FOREVER_NS, longest_windows, meet
from harness.history.groups import grouped


@dataclass(frozen=True, slots=True)
class WrongClocks:
    """The times, as (from, to), of each node and of each client whose clock was ever wrong."""

    by_node: Mapping[str, Sequence[tuple[int, int]]]
    by_client: Mapping[str, Sequence[tuple[int, int]]]

    @classmethod
    def of(cls, faults: Iterable[FaultEvent], lease_ms: float) -> WrongClocks:
        nodes, clients = list[tuple[str, tuple[int, int]]](), list[tuple[str, tuple[int, int]]]()
        for event, began, done in longest_windows(faults):
            until = min(FOREVER_NS, done + round(lease_ms * 1e6 + event.clock_off_after_ns(done - began)))
            nodes += ((node, (began, until)) for node in event.wrong_clocks)
            clients += ((client, (began, done)) for client in event.wrong_client_clocks)
        return cls(grouped(nodes), grouped(clients))

    def touch(self, node: str, from_ns: int, to_ns: int) -> bool:
        """Whether the node's keys may have lived for another time at some time of these."""
        return meet(self.by_node.get(node, ()), from_ns, to_ns)

    def mislead(self, client: str, from_ns: int, to_ns: int) -> bool:
        """Whether the client may have measured wrong at some time of these."""
        return meet(self.by_client.get(client, ()), from_ns, to_ns)

    def nodes(self, from_ns: int, to_ns: int) -> tuple[str, ...]:
        """The nodes of which this is so, in order."""
        return tuple(sorted(node for node in self.by_node if self.touch(node, from_ns, to_ns)))

    @property
    def times(self) -> tuple[tuple[int, int], ...]:
        """Of all nodes."""
        return tuple(time for times in self.by_node.values() for time in times)
