"""What the nodes held for each section, and when they can have held it: the basis of every finding about leases whose
keys were missing.

Only what is certain is said. A node counts as holding a section's value unless it certainly does not: it was in sight,
and what it held is known, or it did nothing since before the section was asked for. A lock's nodes are those on which
the key was ever set; a lock that uses one of five has a majority of one. A node that never showed the key may have had
it while it was out of sight. Nothing is known of a lock that does not show what it sets on the nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

import numpy as np

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import listed
from harness.history.fault_windows import FOREVER_NS, between
from harness.history.groups import grouped, known
from harness.history.held_keys import NodeLine
from harness.history.key_owners import Owners
from harness.history.node_downtime import Standstills
from harness.history.wrong_clocks import WrongClocks

if TYPE_CHECKING:
    from harness.history.key_holdings import Watched
    from harness.history.run_tables import RunTables

Loss = Literal[
    "deleted", "overwritten", "gone unread", "expired", "expired early", "lost by the node", "unseen", "never set"
]
LOSSES: Final[tuple[Loss, ...]] = get_args(Loss)
"""Why a node does not hold the value: a client deleted or overwrote it before its owner gave it up; some value, perhaps
this one, was there too briefly to be read; its TTL ran out, or the node let it expire before that, or may have, because
its clock was wrong; the node went down
and came back without it; it may have been there, and gone, while the node was out of sight; or it was never there."""


def in_words(loss: Loss) -> str:
    return "disappeared unobserved" if loss == "gone unread" else loss


def losses_by_node(losses: Iterable[tuple[str, Loss]]) -> tuple[str, ...]:
    """`never set on n2 and n3`, `lost by n4`: one text for each kind of loss."""
    return tuple(
        f"{'lost by' if loss == 'lost by the node' else f'{in_words(loss)} on'} {listed(nodes)}"
        for loss, nodes in grouped((loss, node) for node, loss in losses).items()
    )


OF_THE_LOCK: Final[frozenset[Loss]] = frozenset({"deleted", "overwritten", "gone unread", "expired", "never set"})
"""Losses that only the lock's own requests can cause."""


class WeakStretch(NamedTuple):
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
class Backing:
    """What each node held, by (node, key), and when it was in sight."""

    owners: Owners
    lines: dict[tuple[str, str], NodeLine]
    used: dict[str, list[str]]
    """The nodes that each key was ever set on."""
    watched: Watched
    client: list[str]
    process: list[str]
    key: list[str]
    asked: list[int]
    told: list[int]
    requested: list[int]
    """When the round that granted it was, if the lock tells; else when the section was asked for."""
    all_nodes: tuple[str, ...]
    asked_of: Mapping[str, Container[str]]
    """By key, the nodes to which a request was sent that names it; of other keys it is not known."""
    clocks: WrongClocks
    standstills: Standstills

    @classmethod
    def of(cls, run: RunTables, watched: Watched, owners: Owners, asked_of: Mapping[str, Container[str]]) -> Backing:
        sections = run.sections
        held = grouped(((row.node, row.lock_key), row) for row in owners.each)
        clients, keys = (sections[name].astype(str).tolist() for name in ("client", "key"))
        asked = sections["asked_ns"].to_numpy(np.int64)
        requested = np.maximum(asked, known(sections["requested_ns"])[1]).tolist()
        return cls(
            owners,
            {line: NodeLine.of(rows) for line, rows in held.items()},
            grouped((key, node) for node, key in sorted(held)),
            watched,
            clients,
            [process_of(client) for client in clients],
            keys,
            asked.tolist(),
            sections["start_ns"].tolist(),
            requested,
            run.config.node_names,
            asked_of,
            run.wrong_clocks,
            # What broke a run off may have left a node in another state than its faults tell.
            Standstills.of(() if run.doubts or not run.is_vouched_for else run.faults),
        )

    def nodes(self, section: int) -> list[str]:
        """The nodes that the section's lock uses; none if its key was never seen."""
        return self.used.get(self.key[section], [])

    def was_seen_with(self, node: str, section: int) -> bool:
        """Whether the node was ever seen with what was set for the section."""
        return section in self.lines[node, self.key[section]].of_section

    def was_watched(self, section: int, until_ns: int) -> bool:
        """Whether it would have shown that the section had no majority behind it: from the request for it to this time,
        it was always known what a majority of the nodes that its lock may use held for it."""
        used, asked = self.nodes(section), self.asked[section]
        in_sight = sum(not self._blind(node, section, asked, until_ns) for node in used)
        return in_sight >= quorum(len(used) + len(self._unshown(section, until_ns)))

    def unbacked(self, section: int, from_ns: int, to_ns: int) -> WeakStretch | None:
        """The longest part of this time in which the section certainly had no majority behind it; None if there was
        none."""
        return max(self._stretches(section, from_ns, to_ns), key=lambda part: part.length_ns, default=None)

    def may_have_been_held(self, section: int, from_ns: int, to_ns: int) -> bool:
        """Whether a majority of the nodes may have held the section's value within this time, each at some time of its
        own."""
        used, unseen = self.nodes(section), len(self._unshown(section, to_ns))
        holders = len(self.possible_holders(section, from_ns, to_ns))
        return not used or holders + unseen >= quorum(len(used) + unseen)

    def possible_holders(self, section: int, from_ns: int, to_ns: int) -> list[str]:
        """The nodes that may have held the section's value at some time of these."""
        return [node for node in self.nodes(section) if self._maybe(node, section, from_ns, to_ns)]

    def gone_by(self, section: int, from_ns: int, to_ns: int) -> WeakStretch | None:
        """The last part of this time, up to its end, in which the section certainly had no majority behind it; None if
        it may have had one at the end."""
        parts = self._stretches(section, from_ns, to_ns)
        return parts[-1] if parts and parts[-1].to_ns == to_ns else None

    def _stretches(self, section: int, from_ns: int, to_ns: int) -> list[WeakStretch]:
        used = self.nodes(section)
        if not used:
            return []
        maybe = {node: self._maybe(node, section, from_ns, to_ns) for node in used}
        unshown = [self._blind(node, section, from_ns, to_ns) for node in self._unshown(section, to_ns)]
        every = [*maybe.values(), *unshown]
        edges = sorted({from_ns, to_ns, *(edge for spans in every for span in spans for edge in span)})
        found: list[list[tuple[int, int]]] = []
        goes_on = False
        for left, right in pairwise(edges):
            unseen = sum(_covers(spans, left, right) for spans in unshown)
            holding = sum(_covers(spans, left, right) for spans in maybe.values())
            lacks = holding + unseen < quorum(len(used) + unseen)
            if lacks and goes_on:
                found[-1].append((left, right))
            elif lacks:
                found.append([(left, right)])
            goes_on = lacks
        return [self._stretch(section, pieces, maybe, len(unshown)) for pieces in found]

    def _stretch(
        self, section: int, pieces: list[tuple[int, int]], maybe: dict[str, list[tuple[int, int]]], unseen: int
    ) -> WeakStretch:
        ended = pieces[-1][1]
        lacking = [node for node, spans in maybe.items() if not _cover(spans, pieces)]
        losses = tuple((node, self._loss(node, section, ended)) for node in lacking)
        return WeakStretch(section, pieces[0][0], ended, losses, unseen)

    def _maybe(self, node: str, section: int, start: int, until: int) -> list[tuple[int, int]]:
        """The parts of [start, until] in which the node may have held the section's value."""
        line = self.lines[node, self.key[section]]
        is_right = not self.clocks.touch(node, self.asked[section], until)
        spans = [
            (max(start, one.from_min_ns), min(until, one.gone_by_ns if is_right else one.to_max_ns))
            for one in line.perhaps(self.process[section], start, until)
        ]
        return [(a, max(a, b)) for a, b in spans] + self._blind(node, section, start, until)

    def _unshown(self, section: int, until_ns: int) -> list[str]:
        """The nodes that never showed the key, and may have held it out of sight since the section was asked for. One
        that was never asked about the key holds none."""
        used, since_ns = self.nodes(section), self.asked[section]
        asked_of: Container[str] = self.asked_of.get(self.key[section], self.all_nodes)
        others = (node for node in self.all_nodes if node in asked_of and node not in used)
        return [node for node in others if self._blind(node, section, since_ns, until_ns)]

    def _blind(self, node: str, section: int, start: int, until: int) -> list[tuple[int, int]]:
        """The parts of [start, until] in which the node was out of sight, and may have held the section's value."""
        since = max(start, min(self._given_nothing_until(node, section), until))
        return between((window[:2] for window in self.watched.of(node)), since, until)

    def _given_nothing_until(self, node: str, section: int) -> int:
        """If the node stood still when the section was asked for, until it went on; else that time. It may hold a value
        that its client's sections have in common since an earlier one."""
        asked = self.asked[section]
        is_its_own = self.owners.of_clients.keys().isdisjoint(self.owners.values.get(section, ()))
        return self.standstills.until(node, asked) if is_its_own else asked

    def _loss(self, node: str, section: int, at_ns: int) -> Loss:
        """Why the node does not hold the section's value shortly before `at_ns`."""
        line, asked = self.lines[node, self.key[section]], self.asked[section]
        # What lasts until then had come too late.
        own = [one for one in line.own(section, self.process[section], asked, at_ns) if one.gone_by_ns < at_ns]
        if not own:
            # What it held may have been lost with the node before it was seen, or gone before it could be read.
            if any(asked <= lost < at_ns for _, lost, _ in self.watched.of(node)):
                return "lost by the node"
            if self._blind(node, section, asked, at_ns):
                return "unseen"
            # What an earlier round had set is not what this one did.
            since = self.requested[section]
            unread = any(other.from_min_ns < at_ns and other.to_max_ns > since for other in line.unread)
            return "gone unread" if unread else "never set"
        last = own[-1]
        # A later round of the same call may have set it once more while the node was out of sight.
        again = self._blind(node, section, last.to_max_ns, min(at_ns, self.told[section]))
        if any(self._restarted(node, since, at_ns) for since, _ in again):
            return "lost by the node"
        if again and self.clocks.touch(node, asked, at_ns):
            return "expired early"
        if last.ended == "set unread":
            # It may have been the owner's own value once more.
            later = [other for other in line.unread if last.from_min_ns <= other.from_min_ns < at_ns]
            if not later or later[-1].ended in ("deleted", "overwritten", "set unread"):
                return "gone unread"
            last = later[-1]
        if last.ended == "expired":
            is_early = last.expired_early or self.clocks.touch(node, asked, at_ns)
            return "expired early" if is_early else "expired"
        if last.ended == "deleted":
            return "deleted"
        return "overwritten" if last.ended == "overwritten" else "lost by the node"

    def lives_until(self, section: int, from_ns: int, to_ns: int) -> int | None:
        """By when the section's keys that were there, or were set, from the one time on, as they had been prolonged by
        the other, have certainly expired on so many nodes that no majority is left, if they are not deleted before;
        None if that is not known, or no majority had them."""
        used = self.nodes(section)
        if not used:
            return None
        ends = sorted((self._lives_until(node, section, from_ns, to_ns) for node in used), reverse=True)
        until_ns = ends[len(used) // 2]
        return None if until_ns in (0, FOREVER_NS) else until_ns

    def _lives_until(self, node: str, section: int, from_ns: int, to_ns: int) -> int:
        """The same for one node: forever if that is not known, 0 if it never had the key."""
        if self.clocks.touch(node, from_ns, to_ns) or not self.watched.saw(node, from_ns, to_ns):
            return FOREVER_NS
        held = self.lines[node, self.key[section]].perhaps(self.process[section], from_ns, to_ns)
        return max((one.lives_until(to_ns) for one in held), default=0)

    def set_anew(self, section: int, from_ns: int, to_ns: int) -> list[str]:
        """The nodes that may have set the section's key in this time, or its time to live."""

        def was_set(node: str) -> bool:
            held = self.lines[node, self.key[section]].perhaps(self.process[section], from_ns, to_ns)
            return any(one.may_be_set_anew(from_ns, to_ns) for one in held)

        return [node for node in self.nodes(section) if was_set(node) or not self.watched.saw(node, from_ns, to_ns)]

    def _restarted(self, node: str, from_ns: int, to_ns: int) -> bool:
        """Whether the node went down with one run of its server and came back with another, out of sight, in this
        time."""
        return any(
            before != after and lost >= from_ns and seen <= to_ns
            for (_, lost, before), (seen, _, after) in pairwise(self.watched.of(node))
        )

    def cause(self, stretch: WeakStretch) -> Loss:
        """The loss that most of the nodes had. It is normal that a minority never held the value. What was gone before
        it could be read was probably taken away as it was on a node where that was seen."""
        used = len(self.nodes(stretch.section))
        counts = Counter(loss for _, loss in stretch.losses)
        if used - counts["never set"] < quorum(used):
            return "never set"
        most = max(LOSSES[:-1], key=lambda loss: counts[loss])
        seen: list[Loss] = [loss for loss in ("deleted", "overwritten") if counts[loss]]
        return max(seen, key=lambda loss: counts[loss]) if most == "gone unread" and seen else most

    def is_misled(self, section: int, by_ns: int) -> bool:
        """Whether the wall clock of the section's client was wrong at some time since the section was asked for."""
        return self.clocks.mislead(self.client[section], self.asked[section], by_ns)

    def is_the_locks_doing(self, stretch: WeakStretch, losses: frozenset[Loss] = OF_THE_LOCK) -> bool:
        """Whether there would have been too few even if every loss but these had not happened."""
        used = len(self.nodes(stretch.section)) + stretch.unseen
        return used - sum(loss in losses for _, loss in stretch.losses) < quorum(used)


def _covers(spans: list[tuple[int, int]], left: int, right: int) -> bool:
    return any(a <= left and right <= b for a, b in spans)


def _cover(spans: list[tuple[int, int]], pieces: list[tuple[int, int]]) -> bool:
    """Whether each piece is within one of the spans."""
    return all(_covers(spans, left, right) for left, right in pieces)
