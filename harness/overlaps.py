"""Which sections of one key overlapped, and who is to blame for each pair.

Sections are closed intervals: equal ends overlap. The *certain window* of a section is the part of it in which its
client was surely within the validity that it had been told, the *possible window* the part in which it can have been:

    certain  = [start, min(end, deadline_min)]        possible = [start, min(end, deadline_max)]

Two overlapping sections are the **lock**'s fault if their certain windows meet, a **client**'s if not even their
possible windows do, and **undecided** in between. A window that ends before it starts (the validity was over when the
client came in) is empty and meets nothing.

Pairs are counted by sorting: with the starts of a key in order, the sections that start within another one are a range,
found by two searches. Only the pairs themselves, if there are any, are ever written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.checkers.base import Blame

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MOST_PAIRS: Final = 5_000_000
"""So many pairs are blamed one by one. A lock that excludes nobody makes quadratically many."""

_CHUNK: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Pairs:
    """Overlapping pairs as positions in the sections' table, ordered by the moment at which they began to overlap.

    `earlier` started before `later` (or at the same time). `total` is exact; the arrays hold the first `MOST_PAIRS`.
    `both_certain`, `both_possible`: whether the certain, and the possible, windows meet.
    """

    earlier: Ints
    later: Ints
    both_certain: Bools
    both_possible: Bools
    total: int

    def blamed(self, blame: Blame) -> Ints:
        """Positions in these arrays of the pairs with this blame: `lock`, `client` or `undecided`."""
        match blame:
            case "lock":
                return np.flatnonzero(self.both_certain)
            case "client":
                return np.flatnonzero(~self.both_possible)
            case "undecided":
                return np.flatnonzero(self.both_possible & ~self.both_certain)
        return np.zeros(0, np.int64)

    def blame(self, position: int) -> Blame:
        if self.both_certain[position]:
            return "lock"
        return "undecided" if self.both_possible[position] else "client"


def overlapping_pairs(sections: pd.DataFrame, most: int = MOST_PAIRS) -> Pairs:
    """All pairs of sections of one key, of different clients or lives, that overlap."""
    start: Ints = sections["start_ns"].to_numpy(np.int64)
    end: Ints = sections["end_ns"].to_numpy(np.int64)
    client, key = _codes(sections["client"]), _codes(sections["key"])
    life: Ints = sections["life"].to_numpy(np.int64)

    order, reach = _reach(key, start, end)
    counts = reach - np.arange(len(order)) - 1
    total = int(counts.sum())
    found: list[tuple[Ints, Ints]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    listed = 0
    for first, last in _chunks(counts):
        span = counts[first:last]
        left = np.repeat(np.arange(first, last), span)
        right = left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(span) - span, span)
        a, b = order[left], order[right]
        other = (client[a] != client[b]) | (life[a] != life[b])
        total -= int((~other).sum())
        found.append((a[other], b[other]))
        listed += int(other.sum())
        if listed >= most:
            break
    earlier = np.concatenate([pair[0] for pair in found])[:most]
    later = np.concatenate([pair[1] for pair in found])[:most]
    began = np.argsort(start[later], kind="stable")
    return _judged(sections, earlier[began], later[began], total)


def blames_between(sections: pd.DataFrame, some: Ints, others: Ints) -> list[Blame | None]:
    """For each place in the two arrays of positions, who is to blame for the overlap of these two sections; None where
    they do not overlap, or where one of them is missing (-1)."""
    start: Ints = sections["start_ns"].to_numpy(np.int64)
    end: Ints = sections["end_ns"].to_numpy(np.int64)
    known = np.flatnonzero((some >= 0) & (others >= 0) & (some != others))
    a, b = some[known], others[known]
    earlier, later = np.where(start[a] <= start[b], a, b), np.where(start[a] <= start[b], b, a)
    overlap = start[later] <= end[earlier]
    pairs = _judged(sections, earlier[overlap], later[overlap], int(overlap.sum()))
    blames: list[Blame | None] = [None] * len(some)
    for position, place in enumerate(known[overlap].tolist()):
        blames[place] = pairs.blame(position)
    return blames


def _judged(sections: pd.DataFrame, earlier: Ints, later: Ints, total: int) -> Pairs:
    """Both windows of both sections contain the moment at which the later one starts, or they do not meet."""
    certain_until: Ints = sections["deadline_min_ns"].to_numpy(np.int64)
    possible_until: Ints = sections["deadline_max_ns"].to_numpy(np.int64)
    meet = sections["start_ns"].to_numpy(np.int64)[later]
    return Pairs(
        earlier=earlier,
        later=later,
        both_certain=(meet <= certain_until[earlier]) & (meet <= certain_until[later]),
        both_possible=(meet <= possible_until[earlier]) & (meet <= possible_until[later]),
        total=total,
    )


def _codes(names: pd.Series) -> Ints:
    codes: Ints = np.asarray(names.astype("category").cat.codes, np.int64)
    return codes


def _reach(key: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The rows ordered by key and start, and for each place in that order the place after the last one that starts
    within it. One search over (key, time) as a single number replaces a loop over keys."""
    times = np.unique(start)
    width = len(times) + 1
    begins = key * width + np.searchsorted(times, start)
    closes = key * width + np.searchsorted(times, end, side="right") - 1
    order = np.argsort(begins, kind="stable")
    return order, np.searchsorted(begins[order], closes[order], side="right")


def _chunks(counts: Ints) -> list[tuple[int, int]]:
    """Ranges of rows that have at most about `_CHUNK` pairs each; rows around them that have none cost nothing."""
    rows = len(counts)
    if not rows or not counts.any():
        return []
    summed = np.cumsum(counts)
    cuts = np.searchsorted(summed, np.arange(_CHUNK, int(summed[-1]) + _CHUNK, _CHUNK), side="left") + 1
    bounds = np.unique(np.concatenate([[0], np.minimum(cuts, rows)]))
    return list(pairwise(bounds.tolist()))
