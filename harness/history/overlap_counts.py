"""Exact counts of overlapping pairs of sections, by blame, without listing them; also the first pairs and the longest.

A lock that excludes nobody produces quadratically many pairs, so pairs are counted by sorting. Order the sections of a
key by start. The sections before j whose window is still open when j starts are all sections before j minus those whose
window has ended: one sort and one search count them for every j. This is done for three windows: the section itself,
the possible one and the certain one. So every section gets the number of earlier sections that overlap it in each
window, and

    lock = certain    undecided = possible - certain    client = section - possible

Pairs within one life of one client are counted the same way, with (key, life) in place of the key, and subtracted.

The longest overlap is a range maximum. The later sections that section i overlaps with a given blame form a range; the
end of i's window is applied to that whole range as a candidate, and the maximum at j is the latest end that overlaps j.
Each range is covered by two ranges whose length is a power of two, and long ranges pass their maximum on to shorter
ones.

Only sections that touch another one are considered, so a history without overlaps costs one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.history.groups import Bools, Groups, Ints, TimeLine, stable_order
from harness.history.overlaps import BLAMES, OverlapBlame, Windows, touched, touching

_WINDOWS: Final = ("section", "possible", "certain")
_BETWEEN: Final[dict[OverlapBlame, tuple[str, str | None]]] = {
    "lock": ("certain", None),
    "client": ("section", "possible"),
    "undecided": ("possible", "certain"),
}
"""An overlap has this blame if the first windows overlap and the second ones do not. It lasts as long as the first ones
overlap: what comes after that has another cause."""
_FIRST: Final = 3
_NEVER: Final = -(2**62)
_THREADS: Final = 2
"""More would be faster where there are more processors, but each needs as much memory as three columns."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The pairs with one blame. `count` is exact. A pair is (earlier, later), as positions in the table of sections.
    `first`: the pairs that started first; `longest`: the pair that lasted longest, for `longest_ns`."""

    count: int
    first: tuple[tuple[int, int], ...]
    longest: tuple[int, int]
    longest_ns: int


def count_overlaps(sections: pd.DataFrame, by_key: Groups | None = None) -> dict[OverlapBlame, Kind]:
    """The overlapping pairs of sections of one key and of different clients or lives. Blames without pairs are left
    out.

    Each row of `sections` is one section, with the columns of `harness.history.sections`. `by_key`: as in
    `harness.history.overlaps.touching`.
    """
    rows = touching(sections, by_key)
    if not len(rows):
        return {}
    crowd = _Crowd(Windows.of(sections, rows))
    kinds: dict[OverlapBlame, Kind] = {}
    for place, blame in enumerate(BLAMES):
        counts = crowd.counts(place)
        if total := int(counts.sum()):
            later = np.flatnonzero(counts)
            longest_ns, longest = crowd.longest(place, later)
            first = tuple((int(rows[i]), int(rows[j])) for i, j in islice(crowd.pairs(place, later), _FIRST))
            kinds[blame] = Kind(total, first, (int(rows[longest[0]]), int(rows[longest[1]])), longest_ns)
    return kinds


def overlapped_keys(sections: pd.DataFrame) -> frozenset[str]:
    """The keys for which any two sections of different clients or lives overlapped."""
    rows = touching(sections)
    if not len(rows):
        return frozenset()
    crowd = _Crowd(Windows.of(sections, rows))
    return frozenset(sections["key"].iloc[rows[crowd.met["section"] > 0]].astype(str).unique())


class _Crowd:
    """Sections ordered by key and start. `met`: for each window, the number of earlier sections that overlap each
    one. `_untils`: the ends of these windows."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._untils = {
            "section": windows.end,
            "possible": _earlier_of(windows.end, windows.possible_until),
            "certain": _earlier_of(windows.end, windows.certain_until),
        }
        self.met = self._met(TimeLine.of(windows.key, windows.start), windows.start, None)
        together = stable_order(windows.life)
        together = together[stable_order(windows.key[together])]
        new = np.ones(len(together), np.bool_)
        for column in (windows.key[together], windows.life[together]):
            new[1:] &= column[1:] == column[:-1]
        new[1:] = ~new[1:]
        start = windows.start[together]
        own = TimeLine.of(np.cumsum(new), start)
        self._alone = not touched(own, windows.end[together]).any()
        if not self._alone:
            for name, met in self._met(own, start, together).items():
                others = self.met[name].copy()
                others[together] -= met
                self.met[name] = others

    def _met(self, line: TimeLine, start: Ints, order: Ints | None) -> dict[str, npt.NDArray[np.int32]]:
        """For each window the number of earlier rows of the same group that it overlaps, for the rows in this order.

        Windows that are the same array are counted once; the others are counted by several threads, since sorting
        numbers leaves Python to others.
        """
        different = {id(until): until for until in self._untils.values()}

        def count(until: Ints) -> npt.NDArray[np.int32]:
            return _earlier_meeting(line, start, until if order is None else until[order])

        with ThreadPoolExecutor(_THREADS) as pool:
            counted = dict(zip(different, pool.map(count, different.values()), strict=True))
        return {name: counted[id(until)] for name, until in self._untils.items()}

    def _ends(self, blame: int) -> Ints:
        """The ends by which an overlap with this blame is measured."""
        return self._untils[_BETWEEN[BLAMES[blame]][0]]

    def counts(self, blame: int) -> npt.NDArray[np.int32]:
        """For each section the number of earlier sections that it overlaps with this blame."""
        met = self.met
        match BLAMES[blame]:
            case "lock":
                return met["certain"]
            case "client":
                return met["section"] - met["possible"]
            case "undecided":
                return met["possible"] - met["certain"]

    def pairs(self, blame: int, later: Ints) -> Iterator[tuple[int, int]]:
        """Pairs in the order in which they started, at least the first `_FIRST`. `later`: all rows that are the later
        section of a pair."""
        start = self._windows.start[later]
        place = min(_FIRST, len(later)) - 1
        few = later[start <= np.partition(start, place)[place]]
        for j in few[np.argsort(self._windows.start[few], kind="stable")].tolist():
            for i in self._partners(blame, j)[:_FIRST].tolist():
                yield i, j

    def longest(self, blame: int, later: Ints) -> tuple[int, tuple[int, int]]:
        """The length in ns, and the two sections.

        No overlap is longer than its later section. So if an overlap is as long as the longest later section, the range
        maximum is not needed.
        """
        start, ends = self._windows.start, self._ends(blame)
        most = ends[later] - start[later]
        at = int(np.argmax(most))
        best = self._longest_of(blame, int(later[at]))
        if best[0] == most[at]:
            return best
        lengths = np.minimum(self._furthest(blame)[later], ends[later]) - start[later]
        return self._longest_of(blame, int(later[np.argmax(lengths)]))

    def _longest_of(self, blame: int, j: int) -> tuple[int, tuple[int, int]]:
        """The longest overlap whose later section is j."""
        partners, ends = self._partners(blame, j), self._ends(blame)
        i = int(partners[np.argmax(ends[partners])])
        return int(min(ends[i], ends[j]) - self._windows.start[j]), (i, j)

    def _partners(self, blame: int, j: int) -> Ints:
        """The earlier sections that section j overlaps with this blame, ordered by start."""
        windows = self._windows
        before: Ints = np.arange(np.searchsorted(windows.key, windows.key[j]), j)
        before = before[(windows.end[before] >= windows.start[j]) & (windows.life[before] != windows.life[j])]
        partners: Ints = before[windows.blames(before, np.full(len(before), j)) == blame]
        return partners

    def _furthest(self, blame: int) -> Ints:
        """For each section the latest end of the earlier sections that it overlaps with this blame; meaningless if
        there are none."""
        windows, here, ends = self._windows, np.arange(len(self._windows)), self._ends(blame)
        line = TimeLine.of(windows.key, windows.start)
        reach = {
            name: np.maximum(np.searchsorted(line.starts, line.place(self._untils[name]), side="right") - 1, here)
            for name in _WINDOWS
        }
        wide, narrow = _BETWEEN[BLAMES[blame]]
        # If a section's own narrow window is empty, every overlap in the wide window has this blame.
        open_to_all = self._untils[narrow] < windows.start if narrow else np.zeros(len(here), np.bool_)
        result = np.full(len(here), _NEVER, np.int64)
        for ours, theirs in self._strangers():
            after = reach[narrow] if narrow else here
            laid = _laid(ours, after, reach[wide], ends)
            if open_to_all.any():
                laid = np.where(open_to_all, _laid(ours, here, reach[wide], ends), laid)
            result = np.where(theirs, np.maximum(result, laid), result)
        return result

    def _strangers(self) -> Iterator[tuple[Bools, Bools]]:
        """Pairs of sets that separate lives: any two sections of different lives are in the two sets of at least one
        pair, and no two sections of one life are. If no life overlaps itself, which is usual, one pair of all sections
        suffices."""
        if self._alone:
            everybody = np.ones(len(self._windows), np.bool_)
            yield everybody, everybody
            return
        for bit in range(int(self._windows.life.max()).bit_length()):
            has = (self._windows.life >> bit & 1).astype(np.bool_)
            yield has, ~has
            yield ~has, has


def _earlier_of(end: Ints, until: Ints) -> Ints:
    """The earlier time of each row; the first array itself if it is the earlier one everywhere."""
    return end if bool((until >= end).all()) else np.minimum(end, until)


def _earlier_meeting(line: TimeLine, start: Ints, until: Ints) -> npt.NDArray[np.int32]:
    """For each row the number of earlier rows of its group whose window, from `start` to `until`, overlaps its own."""
    stands = until >= start
    ends, starts = line.place(until), line.starts
    all_stand = bool(stands.all())
    if not all_stand:
        ends, starts = ends[stands], starts[stands]
    ends.sort()
    before = np.arange(len(ends))
    before -= np.searchsorted(ends, starts, side="left")
    if all_stand:
        return before.astype(np.int32)
    met = np.zeros(len(start), np.int32)
    met[stands] = before
    return met


def _laid(some: Bools, after: Ints, last: Ints, heights: Ints) -> Ints:
    """For each place the largest height among the rows i of `some` with after[i] < place <= last[i]."""
    length = np.where(some, last - after, 0)
    rows = np.flatnonzero(length > 0)
    top = np.full(len(heights), _NEVER, np.int64)
    if not len(rows):
        return top
    by_level = Groups.of(np.frexp(length[rows])[1] - 1)
    rows, edges = by_level.take(rows), by_level.edges
    for power in reversed(range(len(edges) - 1)):
        here, width = rows[edges[power] : edges[power + 1]], 1 << power
        np.maximum.at(top, after[here] + 1, heights[here])
        np.maximum.at(top, last[here] + 1 - width, heights[here])
        if power:
            below = top.copy()
            np.maximum(below[width // 2 :], top[: -(width // 2)], out=below[width // 2 :])
            top = below
    return top
