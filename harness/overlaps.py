"""Which sections of one key overlapped, and who is to blame for each pair.

Sections are closed intervals: equal ends overlap. The *certain window* of a section is the part of it in which its
client was surely within the validity that it had been told, the *possible window* the part in which it can have been:

    certain  = [start, min(end, deadline_min)]        possible = [start, min(end, deadline_max)]

Two overlapping sections are the **lock**'s fault if their certain windows meet, a **client**'s if not even their
possible windows do, and **undecided** in between. A window that ends before it starts (the validity was over when the
client came in) is empty and meets nothing.

This module lists pairs, up to a bound. `harness.census` counts all of them and lists none.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.grouping import Bools, Ints, TimeLine, codes_of, order_within

OverlapBlame = Literal["lock", "client", "undecided"]
BLAMES: Final[tuple[OverlapBlame, ...]] = ("lock", "client", "undecided")
NO_OVERLAP: Final = -1

MOST_PAIRS: Final = 5_000_000
"""So many pairs are listed at most. A lock that excludes nobody makes quadratically many."""

_CHUNK: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Windows:
    """The sections' times as arrays, in the table's order. `life`: one number for each life of each client."""

    key: Ints
    life: Ints
    start: Ints
    end: Ints
    certain_until: Ints
    possible_until: Ints

    @classmethod
    def of(cls, sections: pd.DataFrame) -> Windows:
        life = sections["life"].to_numpy(np.int64)
        lives = int(life.max()) + 1 if len(life) else 1
        return cls(
            key=codes_of(sections["key"]),
            life=codes_of(sections["client"]) * lives + life,
            start=sections["start_ns"].to_numpy(np.int64),
            end=sections["end_ns"].to_numpy(np.int64),
            certain_until=sections["deadline_min_ns"].to_numpy(np.int64),
            possible_until=sections["deadline_max_ns"].to_numpy(np.int64),
        )

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Ints) -> Windows:
        return Windows(
            self.key[rows],
            self.life[rows],
            self.start[rows],
            self.end[rows],
            self.certain_until[rows],
            self.possible_until[rows],
        )

    def blames(self, earlier: Ints, later: Ints) -> npt.NDArray[np.int8]:
        """For each pair of rows that overlap the place of its blame in `BLAMES`.

        Both windows of both sections contain the moment at which the later one starts, or they do not meet.
        """
        meet = self.start[later]
        certain = (meet <= self.certain_until[earlier]) & (meet <= self.certain_until[later])
        possible = (meet <= self.possible_until[earlier]) & (meet <= self.possible_until[later])
        return np.where(certain, 0, np.where(possible, 2, 1)).astype(np.int8)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Overlapping pairs as positions in the sections' table, ordered by the moment at which they began to overlap.

    `earlier` started before `later` (or at the same time); `blame` is a place in `BLAMES`.
    """

    earlier: Ints
    later: Ints
    blame: npt.NDArray[np.int8]

    def blamed(self, blame: OverlapBlame) -> Ints:
        """Positions in these arrays of the pairs with this blame."""
        return np.flatnonzero(self.blame == BLAMES.index(blame))


def overlapping_pairs(sections: pd.DataFrame, most: int = MOST_PAIRS) -> Pairs:
    """Pairs of sections of one key, of different clients or lives, that overlap: all of them, or some `most`."""
    windows = Windows.of(sections)
    order = order_within(windows.key, windows.start)
    line = TimeLine.of(windows.key[order], windows.start[order])
    reach = np.searchsorted(line.starts, line.place(windows.end[order]), side="right")
    counts = reach - np.arange(len(order)) - 1
    found: list[tuple[Ints, Ints]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    listed = 0
    for first, last in _chunks(counts):
        span = counts[first:last]
        left = np.repeat(np.arange(first, last), span)
        right = left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(span) - span, span)
        a, b = order[left], order[right]
        other: Bools = windows.life[a] != windows.life[b]
        found.append((a[other], b[other]))
        listed += int(other.sum())
        if listed >= most:
            break
    earlier = np.concatenate([pair[0] for pair in found])[:most]
    later = np.concatenate([pair[1] for pair in found])[:most]
    began = np.argsort(windows.start[later], kind="stable")
    earlier, later = earlier[began], later[began]
    return Pairs(earlier, later, windows.blames(earlier, later))


def blames_between(sections: pd.DataFrame, some: Ints, others: Ints) -> npt.NDArray[np.int8]:
    """For each place in the two arrays of positions, who is to blame for the overlap of these two sections, as a place
    in `BLAMES`; NO_OVERLAP where they do not overlap, or where one of them is missing (-1)."""
    known = np.flatnonzero((some >= 0) & (others >= 0) & (some != others))
    blames = np.full(len(some), NO_OVERLAP, np.int8)
    rows, place = np.unique(np.concatenate([some[known], others[known]]), return_inverse=True)
    windows = Windows.of(sections.iloc[rows])
    a, b = place[: len(known)], place[len(known) :]
    in_order = windows.start[a] <= windows.start[b]
    earlier, later = np.where(in_order, a, b), np.where(in_order, b, a)
    overlap = windows.start[later] <= windows.end[earlier]
    blames[known[overlap]] = windows.blames(earlier[overlap], later[overlap])
    return blames


def _chunks(counts: Ints) -> list[tuple[int, int]]:
    """Ranges of rows that have at most about `_CHUNK` pairs each; rows around them that have none cost nothing."""
    rows = len(counts)
    if not rows or not counts.any():
        return []
    summed = np.cumsum(counts)
    cuts = np.searchsorted(summed, np.arange(_CHUNK, int(summed[-1]) + _CHUNK, _CHUNK), side="left") + 1
    bounds = np.unique(np.concatenate([[0], np.minimum(cuts, rows)]))
    return list(pairwise(bounds.tolist()))
