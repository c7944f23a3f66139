"""Which renewals of a key can have been under way when its owner was done with it?

Somebody who is killed, or who releases while a thread of it renews, has at most one request under way on a connection.
So the first renewal after the end is excused. Later ones are only while a fault that had hit the node, or its link to
the owner, by the end goes on: it may have held up requests that their sender had given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from fencepost.history import FaultEvent
from harness.history.fault_windows import FOREVER_NS, hits_link, merged

ARRIVES_WITHIN_NS: Final = 250_000_000
"""After a fault was healed, what it had held up arrives within this time, and so does what was sent together."""


class Done(NamedTuple):
    """The owner of a key and when it was done with it. `client`: None if it is not known."""

    client: str | None
    at_ns: int
    is_gone: bool


@dataclass(frozen=True, slots=True)
class LateRenewals:
    """`faults`: each injection with the longest time for which it may have been active."""

    faults: Sequence[tuple[FaultEvent, int, int]]

    def last_excused(self, node: str, owner: Done, late: Sequence[int]) -> int | None:
        """The last of the renewals that is not held against the lock; None if all of them are. `late`: when the key was
        renewed on this node after its owner was done with it, in order."""
        if not late:
            return None
        first = late[0]
        may_be_under_way = owner.is_gone or self._any(owner.at_ns, first)
        held_up_ns = self._held_up_until(node, owner)
        for at_ns in reversed(late):
            if at_ns <= held_up_ns or (may_be_under_way and at_ns <= first + ARRIVES_WITHIN_NS):
                return at_ns
        return None

    def _any(self, from_ns: int, to_ns: int) -> bool:
        """Whether any fault can have been in force at some time between the two."""
        return any(since <= to_ns and until >= from_ns for _, since, until in self.faults)

    def _held_up_until(self, node: str, owner: Done) -> int:
        """By when all requests that the owner had sent to the node have arrived, as far as faults are the reason that
        they had not."""
        on_the_way = [
            (since, until)
            for event, since, until in self.faults
            if until >= owner.at_ns
            and (hits_link(event, owner.client, node) or (not owner.is_gone and owner.client in event.paused_clients))
        ]
        if not on_the_way:
            return owner.at_ns
        first, *_ = merged(on_the_way, 0, FOREVER_NS)
        return first[1] + ARRIVES_WITHIN_NS if first[0] <= owner.at_ns else owner.at_ns
