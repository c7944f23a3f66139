"""Exact counts of overlapping pairs of sections, by blame, without listing them; also the first pairs and the longest.

A lock that excludes no client produces quadratically many pairs, so pairs are counted by sorting. Order the sections of
a key by start. The sections before j whose window is still open when j starts are all sections before j minus those
whose window has ended, so it is enough to know how far each window reaches (`harness.history.interval_reach`).
This is done for three windows: the section itself, the possible one and the certain one. So every section gets the
number of earlier sections that overlap it in each window, and

    lock = certain    undecided = possible - certain    client = section - possible

Pairs within one party are counted the same way, with (key, party) in place of the key, and subtracted.

The longest overlap is a range maximum. The later sections that section i overlaps with a given blame form a range; the
end of i's window is applied to that whole range as a candidate, and the maximum at j is the latest end that overlaps j.
Each range is covered by two ranges whose length is a power of two, and long ranges pass their maximum on to shorter
ones.

Only sections that touch another one are considered, so a history without overlaps costs one pass. Where leases lapsed,
the pairs are listed after all, unless there are too many: then overlaps within a lapse stay undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, TypeVar

import numpy as np
import pandas as pd

from harness.history.groups import Bools, Codes, Groups, Ints
from harness.history.interval_reach import Places, last_reached, open_windows
from harness.history.overlaps import BLAMES, MOST_PAIRS, OverlapBlame, Windows, overlapping_pairs, touching

S = TypeVar("S")
T = TypeVar("T")

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
class PairsOfBlame:
    """The pairs with one blame. `count` is exact. A pair is (earlier, later), as positions in the table of sections.
    `first`: the pairs that started first; `longest`: the pair that lasted longest, for `longest_ns`."""

    count: int
    first: tuple[tuple[int, int], ...]
    longest: tuple[int, int]
    longest_ns: int


def count_overlaps(sections: pd.DataFrame, by_key: Groups | None = None) -> dict[OverlapBlame, PairsOfBlame]:
    """The overlapping pairs of sections of one key and of different parties. Blames without pairs are left out.

    Each row of `sections` is one section, with the columns of `harness.history.sections`. `by_key`: as in
    `harness.history.overlaps.touching`.
    """
    rows = touching(sections, by_key)
    if not len(rows):
        return {}
    windows = Windows.of(sections, rows)
    crowd = _Crowd(replace(windows, lapsed=None))
    if windows.lapsed is not None and int(crowd.met["section"].sum()) <= MOST_PAIRS:
        return _listed(sections)
    kinds: dict[OverlapBlame, PairsOfBlame] = {}
    for place, blame in enumerate(BLAMES):
        counts = crowd.counts(place)
        if total := int(counts.sum()):
            later = np.flatnonzero(counts)
            longest_ns, longest = crowd.longest(place, later)
            first = tuple((int(rows[i]), int(rows[j])) for i, j in islice(crowd.pairs(place, later), _FIRST))
            kinds[blame] = PairsOfBlame(total, first, (int(rows[longest[0]]), int(rows[longest[1]])), longest_ns)
    return kinds


def _listed(sections: pd.DataFrame) -> dict[OverlapBlame, PairsOfBlame]:
    """The same, pair by pair."""
    pairs = overlapping_pairs(sections)
    start, end, certain, possible = (
        sections[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "deadline_min_ns", "deadline_max_ns")
    )
    until = {"section": end, "possible": np.minimum(end, possible), "certain": np.minimum(end, certain)}
    kinds: dict[OverlapBlame, PairsOfBlame] = {}
    for blame in BLAMES:
        own = pairs.blamed(blame)
        if not len(own):
            continue
        earlier, later = pairs.earlier[own], pairs.later[own]
        ends = until[_BETWEEN[blame][0]]
        length = np.minimum(ends[earlier], ends[later]) - start[later]
        at = int(np.argmax(length))
        each = list(zip(earlier.tolist(), later.tolist(), strict=True))
        kinds[blame] = PairsOfBlame(len(own), tuple(each[:_FIRST]), each[at], int(length[at]))
    return kinds


def overlapped_keys(sections: pd.DataFrame) -> frozenset[str]:
    """The keys for which any two sections of different parties overlapped."""
    rows = touching(sections)
    if not len(rows):
        return frozenset()
    crowd = _Crowd(Windows.of(sections, rows))
    return frozenset(sections["key"].iloc[rows[crowd.met["section"] > 0]].astype(str).unique())


class _Window:
    """One window of each section. `until`: its ends; `reach`: the last section that it overlaps (`last_reached`);
    `met`: for each section the number of earlier sections that overlap it in this window."""

    def __init__(self, key: Codes, start: Ints, until: Ints) -> None:
        self.until = until
        self.is_open = until >= start
        self.reach = last_reached(key, start, until)
        self.met = open_windows(self.reach, self.is_open)

    def leave_out_own(self, party: Codes, together: Places) -> None:
        """Take pairs of one party out of `met`. `together`: the rows ordered by party. Within a party, what a window
        reaches follows from the rows that it reaches at all: rows take the place of times."""
        own = last_reached(party, together, self.reach[together])
        in_order = np.empty_like(self.met)
        in_order[together] = open_windows(own, self.is_open[together])
        self.met -= in_order


class _Crowd:
    """Sections ordered by key and start, and their windows by name; windows that are the same are the same object."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        untils = {
            "section": windows.end,
            "possible": _earlier_of(windows.end, windows.possible_until),
            "certain": _earlier_of(windows.end, windows.certain_until),
        }
        different = {id(until): until for until in untils.values()}
        found = dict(
            zip(different, _each(partial(_Window, windows.key, windows.start), different.values()), strict=True)
        )
        self._named = {name: found[id(until)] for name, until in untils.items()}
        together, first = windows.by_party()
        reached = self._named["section"].reach.take(together)
        together = together.astype(reached.dtype)
        self._alone = not (~first[1:] & (reached[:-1] >= together[1:])).any()
        if not self._alone:
            party: Codes = np.cumsum(first, dtype=np.int32)
            _each(lambda window: window.leave_out_own(party, together), found.values())
        self.met = {name: window.met for name, window in self._named.items()}

    def _ends(self, blame: int) -> Ints:
        """The ends by which an overlap with this blame is measured."""
        return self._named[_BETWEEN[BLAMES[blame]][0]].until

    def counts(self, blame: int) -> Places:
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
        before = before[(windows.end[before] >= windows.start[j]) & (windows.party[before] != windows.party[j])]
        partners: Ints = before[windows.blames(before, np.full(len(before), j)) == blame]
        return partners

    def _furthest(self, blame: int) -> Ints:
        """For each section the latest end of the earlier sections that it overlaps with this blame; meaningless if
        there are none."""
        here, ends = np.arange(len(self._windows), dtype=np.int64), self._ends(blame)
        wide, narrow = _BETWEEN[BLAMES[blame]]
        last, after = self._named[wide].reach, here if narrow is None else self._named[narrow].reach
        # If a section's own narrow window is empty, every overlap in the wide window has this blame.
        open_to_all = np.zeros(len(here), np.bool_) if narrow is None else ~self._named[narrow].is_open
        result = np.full(len(here), _NEVER, np.int64)
        for ours, theirs in self._strangers():
            laid = _laid(ours, after, last, ends)
            if open_to_all.any():
                laid = np.where(open_to_all, _laid(ours, here, last, ends), laid)
            result = np.where(theirs, np.maximum(result, laid), result)
        return result

    def _strangers(self) -> Iterator[tuple[Bools, Bools]]:
        """Pairs of sets that separate parties: any two sections of different parties are in the two sets of at least
        one pair, and no two sections of one party are. If no party overlaps itself, which is usual without readers, one
        pair of all sections suffices."""
        if self._alone:
            everybody = np.ones(len(self._windows), np.bool_)
            yield everybody, everybody
            return
        for bit in range(int(self._windows.party.max()).bit_length()):
            has = (self._windows.party >> bit & 1).astype(np.bool_)
            yield has, ~has
            yield ~has, has


def _each(work: Callable[[S], T], some: Iterable[S]) -> list[T]:
    """The work done for several at the same time: sorting and counting numbers leave Python to others."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(work, some))


def _earlier_of(end: Ints, until: Ints) -> Ints:
    """The earlier time of each row; the first array itself if it is the earlier one everywhere."""
    return end if bool((until >= end).all()) else np.minimum(end, until)


def _laid(some: Bools, after: Places, last: Places, heights: Ints) -> Ints:
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
