"""What the witness saw of attempts that failed while the lock was free.

Each try sets its value on the nodes that are free, and takes it back where it was refused. So the nodes show whether a
try had a majority, whether the keys of tries stayed when these were over, and where none was ever set.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Self

from fencepost.quorum import quorum
from harness.history.fault_windows import merged
from harness.history.held_keys import HeldKey

if TYPE_CHECKING:
    from harness.history.recorded import Recorded

MOST: Final = 0.5
"""What was so for more than this share of a time explains it."""


@dataclass(frozen=True, slots=True)
class VainTries:
    """`rows`: what the nodes held of the key in this time, in each node's order. `done`: when the owner of each row was
    done with it. `watched`: the nodes that were in sight for most of the time. `is_forwarding`: whether anything was
    set on any node in this time, so that requests arrived. `forgotten`: the sections that their clients left without a
    release."""

    nodes: tuple[str, ...]
    since_ns: int
    until_ns: int
    rows: list[HeldKey]
    done: list[int]
    watched: frozenset[str]
    is_forwarding: bool
    forgotten: frozenset[int] = frozenset()

    @classmethod
    def of(cls, run: Recorded, key: str, since_ns: int, until_ns: int) -> Self | None:
        """None where the key was never seen on any node."""
        owners, watched = run.owners, run.watched
        if owners is None:
            return None
        assert watched is not None, "else nothing would be known of owners"
        own = [row for row in owners.each if row.lock_key == key]
        if not own:
            return None
        rows = [row for row in own if row.from_max_ns <= until_ns and row.to_min_ns >= since_ns]
        begin_ns = {number: int(at_ns) for number, at_ns in enumerate(run.sections["start_ns"])}
        former = {row.section for row in rows if begin_ns.get(row.section, since_ns) < since_ns}
        # What a section has that begins later is not set in vain, for this time ends with it. Unless the key was gone
        # by then: one call may try many times with one value.
        later = begin_ns.keys() - former
        rows = [row for row in rows if row.section not in later or row.to_max_ns < begin_ns[row.section]]
        return cls(
            run.nodes_of(key),
            since_ns,
            until_ns,
            rows,
            # No client is inside, so a key of a former section has no owner.
            [row.from_max_ns if row.section in former else row.done_ns for row in rows],
            frozenset(
                node for node in watched.windows if watched.ns(node, since_ns, until_ns) > MOST * (until_ns - since_ns)
            ),
            any(since_ns <= row.from_min_ns and row.from_max_ns <= until_ns for row in owners.each),
            run.forgotten_sections,
        )

    def had_a_majority(self, absent: tuple[str, ...] = ()) -> bool:
        """Whether a value that was set in this time was on a majority of the nodes, without the absent ones: what these
        hold need not be known to the client."""
        where: defaultdict[str, set[str]] = defaultdict(set)
        for row in self._set_now():
            if row.value is not None and row.node not in absent:
                where[row.value].add(row.node)
        return any(len(nodes) >= self._majority for nodes in where.values())

    def stuck(self, absent: tuple[str, ...]) -> tuple[str, ...]:
        """The nodes whose keys had no owner, if these and the absent ones left no majority free for most of the
        time."""
        spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for row, done_ns in zip(self.rows, self.done, strict=True):
            if row.node not in absent:
                from_ns = row.from_max_ns if self._stays(row) else max(done_ns, row.from_max_ns)
                spans[row.node].append((from_ns, row.to_min_ns))
        merged_spans = {node: merged(own, self.since_ns, self.until_ns) for node, own in spans.items()}
        edges = sorted({edge for own in merged_spans.values() for span in own for edge in span})
        blocked_ns, found = 0, set()
        for left, right in pairwise(edges):
            taken = {node for node, own in merged_spans.items() if any(a <= left and right <= b for a, b in own)}
            if self._leave_no_majority({*taken, *absent}):
                blocked_ns += right - left
                found |= taken
        return tuple(sorted(found)) if blocked_ns > self._most_ns else ()

    def are_forgotten(self, nodes: Collection[str]) -> bool:
        """Whether what stayed on these nodes is of sections that were left without a release: the lock may renew it."""
        sections = [row.section for row in self.rows if row.node in nodes and self._stays(row)]
        return bool(sections) and self.forgotten.issuperset(sections)

    def nothing_set(self, absent: tuple[str, ...]) -> tuple[str, ...]:
        """The nodes that were there and in sight, free for most of the time, and had no key of any try of this time, if
        without them and the absent ones no majority is left."""
        touched = {row.node for row in self.rows if row.from_max_ns >= self.since_ns or self._stays(row)}
        free = tuple(node for node in self.nodes if node in self.watched and node not in (*absent, *touched))
        return free if free and self._leave_no_majority({*free, *absent}) else ()

    def are_split(self) -> bool:
        """Whether keys came on a majority of the nodes."""
        return len({row.node for row in self._set_now()}) >= self._majority

    def left_on(self) -> tuple[str, ...]:
        """The nodes on which keys that were set in this time stayed after their tries, if they were there for longer
        after these than during them, all nodes taken together."""
        after_ns, during_ns = Counter[str](), 0
        for row, done_ns in zip(self.rows, self.done, strict=True):
            if row.from_min_ns >= self.since_ns:
                during_ns += max(min(done_ns, row.to_min_ns) - row.from_max_ns, 0)
                after_ns[row.node] += max(min(row.to_min_ns, self.until_ns) - max(done_ns, row.from_max_ns), 0)
        return tuple(sorted(+after_ns)) if after_ns.total() > during_ns else ()

    def _stays(self, row: HeldKey) -> bool:
        """Whether the node held it for most of the time."""
        return row.to_min_ns - max(row.from_max_ns, self.since_ns) > self._most_ns

    @property
    def _most_ns(self) -> float:
        return MOST * (self.until_ns - self.since_ns)

    @property
    def _majority(self) -> int:
        return quorum(len(self.nodes))

    def _leave_no_majority(self, missing: set[str]) -> bool:
        return len(self.nodes) - len(missing) < self._majority

    def _set_now(self) -> list[HeldKey]:
        return [row for row in self.rows if row.from_min_ns >= self.since_ns]
