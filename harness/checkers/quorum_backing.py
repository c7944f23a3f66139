"""Was every section backed by a majority of the nodes?

A lock that reports a validity guarantees that a majority of the nodes holds the client's value until then. The witness
sees whether that is true. Only what is certain is counted. A node counts as holding the value unless it certainly does
not: it was in sight, and what it held is known. And the client counts as relying on the lock only within its *certain
window*, from the grant to the release or to the earliest end of its validity.

Nothing can be said about a lock that does not show what it sets on the nodes. A lock's nodes are those on which the key
was ever set; a lock that uses one of five has a majority of one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple

import numpy as np

from fencepost.text import milliseconds, of_sections
from harness.config import Requirement
from harness.figures import KEYS_ON_NODES, CheckerFigures, Part, Row
from harness.history.groups import Ints
from harness.history.key_holdings import Watched
from harness.history.key_owners import Owners, find_owners, rows_of
from harness.history.recorded import Recorded
from harness.verdict import Answer, Blame, Finding

Loss = Literal["deleted", "overwritten", "gone unread", "expired", "expired early", "lost by the node", "never set"]
LOSSES: Final[tuple[Loss, ...]] = (
    "deleted",
    "overwritten",
    "gone unread",
    "expired",
    "expired early",
    "lost by the node",
    "never set",
)
"""Why a node does not hold the value: somebody deleted or overwrote it before its owner gave it up; some value, perhaps
this one, was there too briefly to be read; its TTL ran out, or the node let it expire before that; the node went down
and came back without it; or it was never there."""

OF_THE_LOCK: Final[frozenset[Loss]] = frozenset({"deleted", "overwritten", "gone unread", "expired", "never set"})
"""Losses that only the lock's own requests can cause."""

CLOCK_SLACK_NS: Final = 20_000_000
"""A node that expires a key this long before its time did not do what the lock asked: its clock ran fast or stepped."""


class _Own(NamedTuple):
    from_min_ns: int
    to_max_ns: int
    ended: str
    expires_ns: int


class _Stretch(NamedTuple):
    """A time within a section's certain window in which too few nodes held its value, and why each did not."""

    section: int
    from_ns: int
    to_ns: int
    losses: tuple[tuple[str, Loss], ...]

    @property
    def length_ns(self) -> int:
        return self.to_ns - self.from_ns


class Figures(CheckerFigures, frozen=True):
    """`sections`: those that could be checked; 0 where the lock does not show what it sets, and then the rest is None.
    `unfounded`: those of them in which, for some time, surely fewer than a majority held the value; `longest_ms`: the
    longest such time; `by_cause`: the unfounded ones by the loss that most nodes had."""

    sections: int
    unfounded: int | None = None
    longest_ms: float | None = None
    by_cause: dict[Loss, int] | None = None

    def rows(self) -> Iterator[Row]:
        """`0 of 295 sections (95 % upper bound 1.3 %) not backed by a majority`."""
        if self.sections:
            text = f"{of_sections(self.unfounded, self.sections)} not backed by a majority"
            causes = ", ".join(f"{loss} {number:,}" for loss, number in (self.by_cause or {}).items() if number)
            detail = f", for up to {milliseconds(self.longest_ms)}: {causes}" if self.unfounded else ""
            yield Row("quorum", text + detail, order=80)

    def parts(self) -> Iterator[Part]:
        for row in self.rows():
            note = (
                "A section is not backed by a majority when surely too few nodes held its value although its client "
                "was within its validity."
            )
            yield Part(KEYS_ON_NODES, order=21, sentences=(row.text,), note=note)


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched."""
    watched = run.watched
    if watched is None or watched.watch_windows.empty:
        return Answer()
    owners = find_owners(run, watched)
    if not owners.are_shown:
        return Answer(Figures(sections=0))
    nodes = _Nodes.of(run, watched, owners)
    stretches = [stretch for section in owners.values if (stretch := nodes.unfounded(section)) is not None]
    causes = Counter(map(nodes.cause, stretches))
    figures = Figures(
        sections=len(owners.values),
        unfounded=len(stretches),
        longest_ms=max((stretch.length_ns for stretch in stretches), default=0) / 1e6,
        by_cause={loss: causes[loss] for loss in LOSSES},
    )
    return Answer(figures, _unfounded(run, nodes, stretches))


@dataclass(frozen=True, slots=True)
class _Line:
    """What one node held of one key, as lists in the node's order, with the value of each holding."""

    own: dict[int, list[_Own]]
    """By section, the holdings that were set for it."""
    unread: list[_Own]
    """Those whose value was gone before it could be read."""
    value: list[str | None]
    from_min: list[int]
    to_max: list[int]
    reach: list[int]
    """The largest `to_max` up to here."""


@dataclass(frozen=True, slots=True)
class _Nodes:
    """What each node held, by (node, key), and when it was in sight."""

    run: Recorded
    owners: Owners
    lines: dict[tuple[str, str], _Line]
    used: dict[str, list[str]]
    """The nodes that each key was ever set on."""
    watch_windows: dict[str, tuple[list[int], list[int]]]
    key: list[str]
    asked: Ints
    start: Ints
    until: Ints

    @classmethod
    def of(cls, run: Recorded, watched: Watched, owners: Owners) -> _Nodes:
        holdings, sections = owners.holdings, run.sections
        start = sections["start_ns"].to_numpy(np.int64)
        until = np.minimum(sections["end_ns"].to_numpy(np.int64), sections["deadline_min_ns"].to_numpy(np.int64))
        until = np.maximum(until, start)
        lines = {}
        used: dict[str, list[str]] = {}
        for name, rows in holdings.groupby([holdings["node"].astype(str), "lock_key"], sort=True):
            node, key = map(str, name)
            to_max = rows["to_max_ns"].to_numpy(np.int64)
            own: dict[int, list[_Own]] = {}
            unread = []
            for section, value, *rest in rows_of(rows, "section", "value", *_Own._fields):
                own.setdefault(section, []).append(_Own._make(rest))
                if value is None:
                    unread.append(_Own._make(rest))
            lines[node, key] = _Line(
                own,
                unread,
                rows["value"].tolist(),
                rows["from_min_ns"].tolist(),
                to_max.tolist(),
                np.maximum.accumulate(to_max).tolist(),
            )
            used.setdefault(key, []).append(node)
        watch_windows = {
            str(node): (rows["from_ns"].tolist(), rows["to_ns"].tolist())
            for node, rows in watched.watch_windows.groupby(watched.watch_windows["node"].astype(str))
        }
        return cls(
            run,
            owners,
            lines,
            used,
            watch_windows,
            sections["key"].astype(str).tolist(),
            sections["asked_ns"].to_numpy(np.int64),
            start,
            until,
        )

    def unfounded(self, section: int) -> _Stretch | None:
        """The longest time in which the section certainly had no majority behind it; None if there was none."""
        start, until = int(self.start[section]), int(self.until[section])
        used = self.used.get(self.key[section])
        if not used:
            return None
        majority = len(used) // 2 + 1
        maybe = {node: self._maybe(node, section, start, until) for node in used}
        edges = sorted({start, until, *(edge for spans in maybe.values() for span in spans for edge in span)})
        longest = (0, 0)
        began: int | None = None
        for left, right in pairwise(edges):
            holding = [node for node, spans in maybe.items() if any(a <= left and right <= b for a, b in spans)]
            if len(holding) >= majority:
                began = None
                continue
            began = left if began is None else began
            longest = max(longest, (began, right), key=lambda span: span[1] - span[0])
        began, ended = longest
        if began == ended:
            return None
        pieces = [(left, right) for left, right in pairwise(edges) if began <= left and right <= ended]
        lacking = [node for node, spans in maybe.items() if not _cover(spans, pieces)]
        return _Stretch(section, began, ended, tuple((node, self._loss(node, section, ended)) for node in lacking))

    def _maybe(self, node: str, section: int, start: int, until: int) -> list[tuple[int, int]]:
        """The parts of [start, until] in which the node may have held the section's value."""
        values = self.owners.values[section]
        line = self.lines[node, self.key[section]]
        spans = [
            (max(start, line.from_min[place]), min(until, line.to_max[place]))
            for place in range(bisect_left(line.reach, start), bisect_right(line.from_min, until))
            if line.value[place] is None or line.value[place] in values
        ]
        at = start
        for seen, lost in zip(*self.watch_windows.get(node, ([], [])), strict=True):
            spans.append((at, min(seen, until)))
            at = min(max(at, lost), until)
        spans.append((at, until))
        return [(a, max(a, b)) for a, b in spans]

    def _loss(self, node: str, section: int, at_ns: int) -> Loss:
        """Why the node does not hold the section's value shortly before `at_ns`."""
        line, asked = self.lines[node, self.key[section]], int(self.asked[section])
        own = [own for own in line.own.get(section, ()) if own.from_min_ns < at_ns]
        if not own:
            # What it held may have been lost with the node before anybody saw it, or gone before it could be read.
            if any(asked <= lost < at_ns for lost in self.watch_windows[node][1]):
                return "lost by the node"
            unread = any(other.from_min_ns < at_ns and other.to_max_ns > asked for other in line.unread)
            return "gone unread" if unread else "never set"
        last = own[-1]
        if last.ended == "set unread":
            # It may have been the owner's own value once more.
            last = [other for other in line.unread if last.from_min_ns <= other.from_min_ns < at_ns][-1]
            if last.ended in ("deleted", "overwritten", "set unread"):
                return "gone unread"
        if last.ended == "expired":
            return "expired early" if last.to_max_ns < last.expires_ns - CLOCK_SLACK_NS else "expired"
        if last.ended == "deleted":
            return "deleted"
        return "overwritten" if last.ended == "overwritten" else "lost by the node"

    def cause(self, stretch: _Stretch) -> Loss:
        """The loss that most of the nodes had. It is normal that a minority never held the value."""
        used = len(self.used[self.key[stretch.section]])
        counts = Counter(loss for _, loss in stretch.losses)
        if used - counts["never set"] < used // 2 + 1:
            return "never set"
        return max(LOSSES[:-1], key=lambda loss: counts[loss])

    def is_the_locks_doing(self, stretch: _Stretch) -> bool:
        """Whether there would have been too few even if every other loss had not happened."""
        used = len(self.used[self.key[stretch.section]])
        return used - sum(loss in OF_THE_LOCK for _, loss in stretch.losses) < used // 2 + 1


def _cover(spans: list[tuple[int, int]], pieces: list[tuple[int, int]]) -> bool:
    """Whether each piece is within one of the spans."""
    return all(any(a <= left and right <= b for a, b in spans) for left, right in pieces)


def _unfounded(run: Recorded, nodes: _Nodes, stretches: list[_Stretch]) -> tuple[Finding, ...]:
    findings = []
    for by_lock in (True, False):
        some = [stretch for stretch in stretches if nodes.is_the_locks_doing(stretch) is by_lock]
        if not some:
            continue
        longest = max(some, key=lambda stretch: stretch.length_ns)
        causes = Counter(map(nodes.cause, some))
        words = ", ".join(f"{loss} {causes[loss]}" for loss in LOSSES if causes[loss])
        text = (
            f"in {len(some)} {'section' if len(some) == 1 else 'sections'} a client was told that it held the lock "
            f"although certainly no majority of the nodes held its key, for up to {longest.length_ns / 1e6:.1f} ms "
            f"({words})"
        )
        blame: Blame = "lock" if by_lock else "undecided"
        breaks: tuple[Requirement, ...] = ("lease",) if by_lock else ()
        shown = [longest, *(stretch for stretch in some[:3] if stretch is not longest)]
        examples = tuple(_example(run, nodes, stretch) for stretch in shown)
        findings.append(Finding("unfounded-belief", blame, text, breaks, len(some), examples))
    return tuple(findings)


def _example(run: Recorded, nodes: _Nodes, stretch: _Stretch) -> dict[str, object]:
    section = run.sections.iloc[stretch.section]
    return {
        "client": str(section.client),
        "life": int(section.life),
        "section": int(section.section),
        "key": str(section.key),
        "from_ms": (stretch.from_ns - run.timeline.start_ns) / 1e6,
        "for_ms": stretch.length_ns / 1e6,
        "nodes": tuple(f"{node} {loss}" for node, loss in stretch.losses),
    }
