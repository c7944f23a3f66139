"""Which sections of one key overlapped, and who is to blame for each pair.

Sections are closed intervals: equal ends overlap. Sections of one *party* may overlap: those of one life of a client,
and those of all readers of a key. The *certain window* of a section is the part in which its client was
certainly within the validity that its lock reported; the *possible window* is the part in which it may have been:

    certain  = [start, min(end, deadline_min)]        possible = [start, min(end, deadline_max)]

Two overlapping sections are the **lock**'s fault if their certain windows overlap, a **client**'s if not even their
possible windows overlap, and **undecided** otherwise. A window that ends before it starts (the lease had expired when
the client entered) is empty and overlaps nothing. A possible window may have a gap, in which the client certainly had
no lease although it got an extension later; an overlap that is all within it is a client's fault too.

A client is inside one section at a time, so there are no more pairs than sections times clients. They are looked at
some at a time: counting them takes time, and no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.history.groups import Bools, Codes, Groups, Ints, TimeLine, codes_of, placed

OverlapBlame = Literal["lock", "client", "undecided"]
BLAMES: Final[tuple[OverlapBlame, ...]] = ("lock", "client", "undecided")
NO_OVERLAP: Final = -1

MOST_PAIRS: Final = 5_000_000
"""The maximum number of pairs to list."""

_CHUNK: Final = 1_000_000
_FIRST: Final = 3


@dataclass(frozen=True, slots=True)
class Windows:
    """The sections' times as arrays, in the table's order. `party`: one number for each life of each client, and one
    for all readers."""

    key: Codes
    party: Codes
    start: Ints
    end: Ints
    certain_until: Ints
    possible_until: Ints
    lapsed: tuple[Ints, Ints] | None = None
    """From when to when no lease was left; None if none lapsed."""

    @classmethod
    def of(cls, sections: pd.DataFrame, rows: Ints) -> Windows:
        """The windows of these rows."""

        def times(name: str) -> Ints:
            return sections[name].to_numpy(np.int64)[rows]

        return cls(
            key=codes_of(sections["key"])[rows],
            party=parties_of(sections)[rows],
            start=times("start_ns"),
            end=times("end_ns"),
            certain_until=times("deadline_min_ns"),
            possible_until=times("deadline_max_ns"),
            lapsed=(times("lapsed_from_ns"), times("lapsed_to_ns")) if "lapsed_to_ns" in sections else None,
        )

    def __len__(self) -> int:
        return len(self.start)

    def by_party(self) -> tuple[Ints, Bools]:
        """The rows ordered by party and key, and which of these come first of their party and key. The windows are
        ordered by key."""
        order = np.argsort(self.party, kind="stable")
        first = np.ones(len(self), np.bool_)
        first[1:] = self.party[order[1:]] != self.party[order[:-1]]
        first[1:] |= self.key[order[1:]] != self.key[order[:-1]]
        return order, first

    def blames(self, earlier: Ints, later: Ints) -> npt.NDArray[np.int8]:
        """For each overlapping pair of rows the index of its blame in `BLAMES`.

        Two windows of a pair overlap exactly if both contain the start of the later section.
        """
        meet = self.start[later]
        certain = (meet <= self.certain_until[earlier]) & (meet <= self.certain_until[later])
        possible = (meet <= self.possible_until[earlier]) & (meet <= self.possible_until[later])
        if self.lapsed is not None:
            began, done = self.lapsed
            until = np.minimum(self.end, self.possible_until)
            until = np.minimum(until[earlier], until[later])
            for side in (earlier, later):
                possible &= ~((began[side] < meet) & (until < done[side]))
        return np.where(certain, 0, np.where(possible, 2, 1)).astype(np.int8)

    def until(self, blame: OverlapBlame) -> Ints:
        """By when an overlap with this blame is over: what comes after that has another cause."""
        match blame:
            case "lock":
                return np.minimum(self.end, self.certain_until)
            case "client":
                return self.end
            case "undecided":
                return np.minimum(self.end, self.possible_until)

    def pairs(self) -> Iterator[tuple[Ints, Ints]]:
        """The overlapping rows of different parties, earlier and later ones, some at a time. The rows are ordered by
        key and start."""
        line = TimeLine.of(self.key, self.start)
        reach = np.searchsorted(line.starts, line.place(self.end), side="right")
        counts = reach - np.arange(len(self)) - 1
        for first, last in _chunks(counts):
            span = counts[first:last]
            left = np.repeat(np.arange(first, last), span)
            right = left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(span) - span, span)
            other: Bools = self.party[left] != self.party[right]
            yield left[other], right[other]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Overlapping pairs as positions in the table of sections, ordered by the start of the overlap.

    `earlier` started before `later` (or at the same time); `blame` is an index in `BLAMES`.
    """

    earlier: Ints
    later: Ints
    blame: npt.NDArray[np.int8]

    def blamed(self, blame: OverlapBlame) -> Ints:
        """The positions, in these arrays, of the pairs with this blame."""
        return np.flatnonzero(self.blame == BLAMES.index(blame))


def parties_of(sections: pd.DataFrame) -> Codes:
    """For each section the number of its party: its client's life, or that of all readers."""
    lives = placed(codes_of(sections["client"]), sections["life"].to_numpy())
    return np.where(sections["shared"], int(lives.max(initial=0)) + 1, lives) if "shared" in sections else lives


def sections_by_key(sections: pd.DataFrame) -> Groups:
    """The rows by key, and by start within each key."""
    return Groups.of(codes_of(sections["key"]), order_by=sections["start_ns"].to_numpy(np.int64))


def touching(sections: pd.DataFrame, by_key: Groups | None = None) -> Ints:
    """The rows whose section touches another section of its key, ordered by key and start. `by_key`: the result of
    `sections_by_key`, if available."""
    by_key = by_key or sections_by_key(sections)
    start: Ints = by_key.take(sections["start_ns"].to_numpy(np.int64))
    end: Ints = by_key.take(sections["end_ns"].to_numpy(np.int64))
    reaches_next = by_key.within(end[:-1] >= start[1:])
    # If no section reaches the next one of its key, no sections touch; if all do, all touch.
    if not reaches_next.any():
        return np.zeros(0, np.int64)
    if _either_side(reaches_next).all():
        return by_key.order
    return by_key.rows(np.flatnonzero(touched(TimeLine.of(by_key.number, start), end)))


def touched(line: TimeLine, end: Ints) -> Bools:
    """Which of the ordered rows reach the next row, or are reached by an earlier one."""
    furthest = line.place(end)
    np.maximum.accumulate(furthest, out=furthest)
    return _either_side(furthest[:-1] >= line.starts[1:])


def _either_side(with_next: Bools) -> Bools:
    """For each row whether its flag, for itself and the next row, is set, or that of the row before it."""
    either = np.append(with_next, False)
    either[1:] |= with_next
    return either


def overlapping_pairs(sections: pd.DataFrame, most: int = MOST_PAIRS) -> Pairs:
    """Overlapping pairs of sections of one key and of different parties: all of them, or `most` of them."""
    order = touching(sections)
    windows = Windows.of(sections, order)
    found: list[tuple[Ints, Ints]] = []
    listed = 0
    for pairs in windows.pairs():
        found.append(pairs)
        listed += len(pairs[0])
        if listed >= most:
            break
    earlier = np.concatenate([pair[0] for pair in found])[:most]
    later = np.concatenate([pair[1] for pair in found])[:most]
    began = np.argsort(windows.start[later], kind="stable")
    earlier, later = earlier[began], later[began]
    return Pairs(order[earlier], order[later], windows.blames(earlier, later))


@dataclass(frozen=True, slots=True)
class PairsOfBlame:
    """The pairs with one blame. `count`: of all of them. A pair is (earlier, later), as positions in the table of
    sections. `first`: the pairs that started first; `longest`: the pair that lasted longest, for `longest_ns`."""

    count: int
    first: tuple[tuple[int, int], ...]
    longest: tuple[int, int]
    longest_ns: int


def count_overlaps(sections: pd.DataFrame, by_key: Groups | None = None) -> dict[OverlapBlame, PairsOfBlame]:
    """The overlapping pairs of sections of one key and of different parties. Blames without pairs are left out.
    `by_key`: as in `touching`."""
    rows = touching(sections, by_key)
    windows = Windows.of(sections, rows)
    found: dict[OverlapBlame, _Notable] = {}
    for earlier, later in windows.pairs():
        blames = windows.blames(earlier, later)
        for place, blame in enumerate(BLAMES):
            own = blames == place
            if own.any():
                notable = found.setdefault(blame, _Notable(windows.start, windows.until(blame)))
                notable.add(np.stack([earlier[own], later[own]]))
    return {blame: found[blame].pairs(rows) for blame in BLAMES if blame in found}


@dataclass(slots=True)
class _Notable:
    """Counts pairs of rows, and keeps the first ones and the longest. `until`: by when an overlap is over."""

    start: Ints
    until: Ints
    count: int = 0
    first: Ints = field(default_factory=lambda: np.zeros((2, 0), np.int64))
    longest: Ints = field(default_factory=lambda: np.zeros((2, 0), np.int64))

    def add(self, more: Ints) -> None:
        """Two rows: the earlier and the later sections of at least one pair."""
        self.count += more.shape[1]
        earlier, later = pairs = np.hstack([self.first, more])
        self.first = pairs[:, np.lexsort((earlier, later, self.start[later]))[:_FIRST]]
        earlier, later = pairs = np.hstack([self.longest, more])
        by_length = np.lexsort((earlier, -self.until[earlier], later, -self._lasted(pairs)))
        self.longest = pairs[:, by_length[:1]]

    def _lasted(self, pairs: Ints) -> Ints:
        lasted: Ints = self.until[pairs].min(axis=0) - self.start[pairs[1]]
        return lasted

    def pairs(self, rows: Ints) -> PairsOfBlame:
        """`rows`: their positions in the table."""
        *first, longest = ((int(a), int(b)) for a, b in rows[np.hstack([self.first, self.longest])].T)
        return PairsOfBlame(self.count, tuple(first), longest, int(self._lasted(self.longest)[0]))


def overlapped_keys(sections: pd.DataFrame) -> frozenset[str]:
    """The keys for which any two sections of different parties overlapped."""
    rows = touching(sections)
    overlapped = np.zeros(len(rows), np.bool_)
    for earlier, _ in Windows.of(sections, rows).pairs():
        overlapped[earlier] = True
    return frozenset(sections["key"].iloc[rows[overlapped]].astype(str).unique())


def blames_between(sections: pd.DataFrame, some: Ints, others: Ints) -> npt.NDArray[np.int8]:
    """For each two positions of `some` and `others`, who is to blame for the overlap of these two sections, as an index
    in `BLAMES`; NO_OVERLAP if they do not overlap, or if one of them is missing (-1).

    `sections` must be ordered by start, so that positions are ranks.
    """
    known = np.flatnonzero((some >= 0) & (others >= 0) & (some != others))
    blames = np.full(len(some), NO_OVERLAP, np.int8)
    rows, place = np.unique(np.concatenate([some[known], others[known]]), return_inverse=True)
    windows = Windows.of(sections, rows)
    a, b = place[: len(known)], place[len(known) :]
    earlier, later = np.minimum(a, b), np.maximum(a, b)
    overlap = windows.start[later] <= windows.end[earlier]
    blames[known[overlap]] = windows.blames(earlier[overlap], later[overlap])
    return blames


def _chunks(counts: Ints) -> list[tuple[int, int]]:
    """The rows as consecutive ranges. Without its first row, each has fewer than `_CHUNK` pairs."""
    cuts = np.flatnonzero(np.diff(np.cumsum(counts) // _CHUNK)) + 1
    return list(pairwise([0, *cuts.tolist(), len(counts)]))
