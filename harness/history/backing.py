"""What the nodes held for each section, and when they can have held it: the question behind every finding about leases
whose keys were not there.

Only what is certain is said. A node counts as holding a section's value unless it certainly does not: it was in sight,
and what it held is known. A lock's nodes are those on which the key was ever set; a lock that uses one of five has a
majority of one. A node that never showed the key may have had it while it was out of sight. Nothing is known of a lock
that does not show what it sets on the nodes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from harness.history.fault_windows import FOREVER_NS
from harness.history.key_owners import Owners, rows_of
from harness.history.wrong_clocks import WrongClocks

if TYPE_CHECKING:
    from harness.history.key_holdings import Watched
    from harness.history.recorded import Recorded

Loss = Literal[
    "deleted", "overwritten", "gone unread", "expired", "expired early", "lost by the node", "unseen", "never set"
]
LOSSES: Final[tuple[Loss, ...]] = (
    "deleted",
    "overwritten",
    "gone unread",
    "expired",
    "expired early",
    "lost by the node",
    "unseen",
    "never set",
)
"""Why a node does not hold the value: somebody deleted or overwrote it before its owner gave it up; some value, perhaps
this one, was there too briefly to be read; its TTL ran out, or the node let it expire before that, or may have, because
its clock was wrong; the node went down
and came back without it; it may have been there, and gone, while the node was out of sight; or it was never there."""

OF_THE_LOCK: Final[frozenset[Loss]] = frozenset({"deleted", "overwritten", "gone unread", "expired", "never set"})
"""Losses that only the lock's own requests can cause."""

CLOCK_SLACK_NS: Final = 20_000_000
"""A node that expires a key this long before its time did not do what the lock asked: its clock ran fast or stepped.
Where a fault is known to have set the clock, any expiry may be the clock's."""


class Own(NamedTuple):
    """What a node held for a section; the columns of `Owners.holdings`."""

    from_min_ns: int
    from_max_ns: int
    to_max_ns: int
    ended: str
    expires_ns: int
    renewals: tuple[int, ...]

    @property
    def expired_early(self) -> bool:
        """Whether it was gone before its time. What was gone before its TTL could be read had been given next to none;
        by the lock, for clocks do not step just then."""
        last_set_ns = self.renewals[-1] if self.renewals else self.from_max_ns
        if self.expires_ns >= FOREVER_NS and self.to_max_ns <= last_set_ns + CLOCK_SLACK_NS:
            return False
        return self.to_max_ns < self.expires_ns - CLOCK_SLACK_NS


class Stretch(NamedTuple):
    """A time in which certainly too few nodes held a section's value, and why each did not. `unseen`: how many nodes
    never showed the key, and may have had it and lost it while they were out of sight."""

    section: int
    from_ns: int
    to_ns: int
    losses: tuple[tuple[str, Loss], ...]
    unseen: int = 0

    @property
    def length_ns(self) -> int:
        return self.to_ns - self.from_ns


@dataclass(frozen=True, slots=True)
class _Line:
    """What one node held of one key, as lists in the node's order, with the value of each holding."""

    own: dict[int, list[Own]]
    """By section, the holdings that were set for it."""
    unread: list[Own]
    """Those whose value was gone before it could be read."""
    value: list[str | None]
    from_min: list[int]
    to_max: list[int]
    expires_max: list[int]
    reach: list[int]
    """The largest `to_max` up to here."""


@dataclass(frozen=True, slots=True)
class Backing:
    """What each node held, by (node, key), and when it was in sight."""

    owners: Owners
    lines: dict[tuple[str, str], _Line]
    used: dict[str, list[str]]
    """The nodes that each key was ever set on."""
    watch_windows: dict[str, tuple[list[int], list[int]]]
    key: list[str]
    asked: list[int]
    all_nodes: tuple[str, ...]
    clocks: WrongClocks

    @classmethod
    def of(cls, run: Recorded, watched: Watched, owners: Owners) -> Backing:
        holdings, sections = owners.holdings, run.sections
        lines = {}
        used: dict[str, list[str]] = {}
        for name, rows in holdings.groupby([holdings["node"].astype(str), "lock_key"], sort=True):
            node, key = map(str, name)
            to_max = rows["to_max_ns"].to_numpy(np.int64)
            own: dict[int, list[Own]] = {}
            unread = []
            for section, value, *rest in rows_of(rows, "section", "value", *Own._fields):
                own.setdefault(section, []).append(Own._make(rest))
                if value is None:
                    unread.append(Own._make(rest))
            lines[node, key] = _Line(
                own,
                unread,
                rows["value"].tolist(),
                rows["from_min_ns"].tolist(),
                to_max.tolist(),
                rows["expires_max_ns"].tolist(),
                np.maximum.accumulate(to_max).tolist(),
            )
            used.setdefault(key, []).append(node)
        watch_windows = {
            str(node): (rows["from_ns"].tolist(), rows["to_ns"].tolist())
            for node, rows in watched.watch_windows.groupby(watched.watch_windows["node"].astype(str))
        }
        keys, asked = sections["key"].astype(str).tolist(), sections["asked_ns"].tolist()
        return cls(owners, lines, used, watch_windows, keys, asked, run.config.node_names, run.wrong_clocks)

    def nodes(self, section: int) -> list[str]:
        """The nodes that the section's lock uses; none if its key was never seen."""
        return self.used.get(self.key[section], [])

    def was_watched(self, section: int, until_ns: int) -> bool:
        """Whether it would have shown that the section had no majority behind it: from the request for it to this time,
        a majority of the nodes that its lock may use was always in sight."""
        used, asked = self.nodes(section), self.asked[section]
        in_sight = sum(not self._blind(node, asked, until_ns) for node in used)
        return in_sight >= (len(used) + len(self._unshown(section, until_ns))) // 2 + 1

    def unbacked(self, section: int, from_ns: int, to_ns: int) -> Stretch | None:
        """The longest part of this time in which the section certainly had no majority behind it; None if there was
        none."""
        return max(self._stretches(section, from_ns, to_ns), key=lambda part: part.length_ns, default=None)

    def may_have_been_held(self, section: int, from_ns: int, to_ns: int) -> bool:
        """Whether a majority of the nodes may have held the section's value within this time, each at some time of its
        own."""
        used, unseen = self.nodes(section), len(self._unshown(section, to_ns))
        holders = len(self.possible_holders(section, from_ns, to_ns))
        return not used or holders + unseen >= (len(used) + unseen) // 2 + 1

    def possible_holders(self, section: int, from_ns: int, to_ns: int) -> list[str]:
        """The nodes that may have held the section's value at some time of these."""
        return [node for node in self.nodes(section) if self._maybe(node, section, from_ns, to_ns)]

    def gone_by(self, section: int, from_ns: int, to_ns: int) -> Stretch | None:
        """The last part of this time, up to its end, in which the section certainly had no majority behind it; None if
        it may have had one at the end."""
        parts = self._stretches(section, from_ns, to_ns)
        return parts[-1] if parts and parts[-1].to_ns == to_ns else None

    def _stretches(self, section: int, from_ns: int, to_ns: int) -> list[Stretch]:
        used = self.nodes(section)
        if not used:
            return []
        maybe = {node: self._maybe(node, section, from_ns, to_ns) for node in used}
        unshown = [self._blind(node, from_ns, to_ns) for node in self._unshown(section, to_ns)]
        every = [*maybe.values(), *unshown]
        edges = sorted({from_ns, to_ns, *(edge for spans in every for span in spans for edge in span)})
        found: list[list[tuple[int, int]]] = []
        goes_on = False
        for left, right in pairwise(edges):
            unseen = sum(_covers(spans, left, right) for spans in unshown)
            holding = sum(_covers(spans, left, right) for spans in maybe.values())
            lacks = holding + unseen < (len(used) + unseen) // 2 + 1
            if lacks and goes_on:
                found[-1].append((left, right))
            elif lacks:
                found.append([(left, right)])
            goes_on = lacks
        return [self._stretch(section, pieces, maybe, len(unshown)) for pieces in found]

    def _stretch(
        self, section: int, pieces: list[tuple[int, int]], maybe: dict[str, list[tuple[int, int]]], unseen: int
    ) -> Stretch:
        ended = pieces[-1][1]
        lacking = [node for node, spans in maybe.items() if not _cover(spans, pieces)]
        losses = tuple((node, self._loss(node, section, ended)) for node in lacking)
        return Stretch(section, pieces[0][0], ended, losses, unseen)

    def _maybe(self, node: str, section: int, start: int, until: int) -> list[tuple[int, int]]:
        """The parts of [start, until] in which the node may have held the section's value."""
        line = self.lines[node, self.key[section]]
        spans = [
            (max(start, line.from_min[place]), min(until, line.to_max[place]))
            for place in self._perhaps_own(line, section, start, until)
        ]
        return [(a, max(a, b)) for a, b in spans] + self._blind(node, start, until)

    def _unshown(self, section: int, until_ns: int) -> list[str]:
        """The nodes that never showed the key, and were out of sight for some time since the section was asked for."""
        used, asked = self.nodes(section), self.asked[section]
        return [node for node in self.all_nodes if node not in used and self._blind(node, asked, until_ns)]

    def _blind(self, node: str, start: int, until: int) -> list[tuple[int, int]]:
        """The parts of [start, until] in which the node was out of sight."""
        spans, at = [], start
        for seen, lost in zip(*self.watch_windows.get(node, ([], [])), strict=True):
            spans.append((at, min(seen, until)))
            at = min(max(at, lost), until)
        spans.append((at, until))
        return [(a, b) for a, b in spans if a < b]

    def _perhaps_own(self, line: _Line, section: int, start: int, until: int) -> list[int]:
        """The places in the line, touching this time, whose value is the section's or is not known."""
        values = self.owners.values[section]
        return [
            place
            for place in range(bisect_left(line.reach, start), bisect_right(line.from_min, until))
            if line.value[place] is None or line.value[place] in values
        ]

    def _loss(self, node: str, section: int, at_ns: int) -> Loss:
        """Why the node does not hold the section's value shortly before `at_ns`."""
        line, asked = self.lines[node, self.key[section]], self.asked[section]
        # What lasts until then had come too late.
        own = [own for own in line.own.get(section, ()) if own.to_max_ns < at_ns]
        if not own:
            # What it held may have been lost with the node before anybody saw it, or gone before it could be read.
            if any(asked <= lost < at_ns for lost in self.watch_windows.get(node, ([], []))[1]):
                return "lost by the node"
            if self._blind(node, asked, at_ns):
                return "unseen"
            unread = any(other.from_min_ns < at_ns and other.to_max_ns > asked for other in line.unread)
            return "gone unread" if unread else "never set"
        last = own[-1]
        if last.ended == "set unread":
            # It may have been the owner's own value once more.
            last = [other for other in line.unread if last.from_min_ns <= other.from_min_ns < at_ns][-1]
            if last.ended in ("deleted", "overwritten", "set unread"):
                return "gone unread"
        if last.ended == "expired":
            is_early = last.expired_early or self.clocks.touch(node, asked, at_ns)
            return "expired early" if is_early else "expired"
        if last.ended == "deleted":
            return "deleted"
        return "overwritten" if last.ended == "overwritten" else "lost by the node"

    def lives_until(self, section: int, to_ns: int) -> int | None:
        """By when the keys that were set for the section by `to_ns` have certainly expired on so many nodes that no
        majority is left, if nobody deletes them before; None if that is not known, or no majority ever had them."""
        used = self.nodes(section)
        if not used:
            return None
        ends = sorted((self._lives_until(node, section, to_ns) for node in used), reverse=True)
        until_ns = ends[len(used) // 2]
        return None if until_ns in (0, FOREVER_NS) else until_ns

    def _lives_until(self, node: str, section: int, to_ns: int) -> int:
        """The same for one node: forever if that is not known, 0 if it never had the key."""
        asked = self.asked[section]
        if self.clocks.touch(node, asked, to_ns):
            return FOREVER_NS
        windows = zip(*self.watch_windows.get(node, ([], [])), strict=True)
        if not any(seen <= asked and to_ns <= lost for seen, lost in windows):
            return FOREVER_NS
        line = self.lines[node, self.key[section]]
        ends = [
            FOREVER_NS if line.value[place] is None else line.expires_max[place]
            for place in self._perhaps_own(line, section, asked, to_ns)
        ]
        return max(ends, default=0)

    def cause(self, stretch: Stretch) -> Loss:
        """The loss that most of the nodes had. It is normal that a minority never held the value."""
        used = len(self.nodes(stretch.section))
        counts = Counter(loss for _, loss in stretch.losses)
        if used - counts["never set"] < used // 2 + 1:
            return "never set"
        return max(LOSSES[:-1], key=lambda loss: counts[loss])

    def is_the_locks_doing(self, stretch: Stretch) -> bool:
        """Whether there would have been too few even if every other loss had not happened."""
        used = len(self.nodes(stretch.section)) + stretch.unseen
        return used - sum(loss in OF_THE_LOCK for _, loss in stretch.losses) < used // 2 + 1


def _covers(spans: list[tuple[int, int]], left: int, right: int) -> bool:
    return any(a <= left and right <= b for a, b in spans)


def _cover(spans: list[tuple[int, int]], pieces: list[tuple[int, int]]) -> bool:
    """Whether each piece is within one of the spans."""
    return all(_covers(spans, left, right) for left, right in pieces)
