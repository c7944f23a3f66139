"""How many clients were inside at the same time, at every entry, without listing pairs.

An *entry* is the start of a section. The number of clients inside grows only there, so if it was ever above k, it was
at an entry. At each entry three numbers are counted, one for each window of `harness.history.overlaps`: how many
clients, with the one that enters, had a section, a possible window and a certain window that was open. An entry with
more than k sections open is in excess, and blamed on

    lock        if more than k certain windows were open
    client      if at most k possible windows were open
    undecided   otherwise

With k = 1 an entry is in excess exactly if it begins an overlap, and has the gravest blame of the overlaps that it
begins. A party counts once, even if its own sections overlap: the
readers of a key count as one client. Of entries at the same time, the later one in the
table counts the earlier one too.

Counting is sorting: the windows opened up to an entry, minus the ones that ended before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.history.groups import Bools, Groups, Ints, TimeLine
from harness.history.overlaps import (
    BLAMES,
    MOST_PAIRS,
    NO_OVERLAP,
    OverlapBlame,
    Pairs,
    Windows,
    overlapping_pairs,
    touched,
    touching,
)


@dataclass(frozen=True, slots=True)
class Excess:
    """The entries in excess with one blame. `rows`: their positions in the table of sections, ordered by start.
    `inside`: how many clients were inside, counted in the window that decided the blame."""

    rows: Ints
    inside: Ints


@dataclass(frozen=True, slots=True)
class Crowding:
    """`most`: the largest number of clients inside one key at once. `excess`: the entries beyond the permits, without
    blames that have none. `longest_ns`: the longest time in which more clients than permits were inside; 0 if never."""

    most: int
    excess: dict[OverlapBlame, Excess]
    longest_ns: int


def count_crowding(sections: pd.DataFrame, permits: int, by_key: Groups | None = None) -> Crowding:
    """The crowding of a table with the columns of `harness.history.sections`. `by_key`: as in
    `harness.history.overlaps.touching`."""
    rows = touching(sections, by_key)
    if not len(rows):
        return Crowding(min(1, len(sections)), {}, 0)
    windows = Windows.of(sections, rows)
    parties = _Parties(windows)
    inside = parties.open_at_entry(windows.end)
    most, beyond = int(inside.max()), inside > permits
    if not beyond.any():
        return Crowding(most, {}, 0)
    possible = parties.open_at_entry(windows.until("undecided"))
    certain = parties.open_at_entry(windows.until("lock"))
    is_lock, is_client = certain > permits, beyond & (possible <= permits)
    chosen: dict[OverlapBlame, tuple[Bools, Ints]] = {
        "lock": (is_lock, certain),
        "client": (is_client, inside),
        "undecided": (beyond & ~is_lock & ~is_client, possible),
    }
    excess = {}
    for blame in BLAMES:
        places = np.flatnonzero(chosen[blame][0])
        if len(places):
            places = places[np.argsort(windows.start[places], kind="stable")]
            excess[blame] = Excess(rows[places], chosen[blame][1][places])
    return Crowding(most, excess, parties.longest_beyond(permits))


def pairs_beyond(sections: pd.DataFrame, permits: int, most: int = MOST_PAIRS) -> Pairs:
    """The overlapping pairs that should not have been, or `most` of them: with one permit all; with more those whose
    later section is an entry in excess, with the blame of that entry."""
    if permits == 1:
        return overlapping_pairs(sections, most)
    pairs = overlapping_pairs(sections)
    blame_of = np.full(len(sections), NO_OVERLAP, np.int8)
    for blame, excess in count_crowding(sections, permits).excess.items():
        blame_of[excess.rows] = BLAMES.index(blame)
    blames = blame_of[pairs.later]
    chosen = np.flatnonzero(blames != NO_OVERLAP)[:most]
    return Pairs(pairs.earlier[chosen], pairs.later[chosen], blames[chosen])


def open_with(sections: pd.DataFrame, row: int, blame: OverlapBlame) -> Ints:
    """The sections that were open at an entry, in the window that decided its blame: the positions of one for each
    party, the last one that it entered, ordered by start; the entry itself comes last. `row`: its position."""
    same_key = np.flatnonzero((sections["key"] == sections["key"].iloc[row]).to_numpy(np.bool_))
    windows = Windows.of(sections, same_key)
    at = int(np.flatnonzero(same_key == row)[0])
    until = windows.until(blame)
    entered, order = windows.start[at], np.argsort(windows.start, kind="stable")
    order = order[: int(np.flatnonzero(order == at)[0])]
    order = order[(until[order] >= entered) & (windows.party[order] != windows.party[at])]
    _, from_behind = np.unique(windows.party[order][::-1], return_index=True)
    others = order[np.sort(len(order) - 1 - from_behind)]
    found: Ints = same_key[np.append(others, at)]
    return found


class _Parties:
    """Sections ordered by key and start, of which those of one party count as one where they touch."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._line = TimeLine.of(windows.key, windows.start)
        self._together, first = windows.by_party()
        self._own = TimeLine.of(np.cumsum(first), windows.start[self._together])
        self._alone = not touched(self._own, windows.end[self._together]).any()

    def open_at_entry(self, until: Ints) -> Ints:
        """At each entry the number of parties whose window, which ends at `until`, is open, with the one that enters; 0
        for an entry whose own window is empty."""
        opens, until_all = self._merged(until)
        ends = self._line.place(until_all)[opens]
        ends.sort()
        count: Ints = np.cumsum(opens) - np.searchsorted(ends, self._line.starts, side="left")
        count[until < self._windows.start] = 0
        return count

    def longest_beyond(self, permits: int) -> int:
        """The longest time in which more than that many parties were inside."""
        opens, until = self._merged(self._windows.end)
        places, until = self._line.place(until)[opens], until[opens]
        order = np.lexsort((until, places))  # times after the latest start have one place
        ends, until = places[order], until[order]
        starts, begun = self._line.starts[opens], self._windows.start[opens]
        here = np.arange(len(starts))
        before = here - np.searchsorted(ends, starts, side="left")
        after = np.searchsorted(starts, ends, side="right") - here
        # Both are the number of parties inside without the one that enters, or with the one that leaves. It goes above
        # `permits` and falls back to it in turns.
        lengths: Ints = until[after == permits + 1] - begun[before == permits]
        return int(lengths.max())

    def _merged(self, until: Ints) -> tuple[Bools, Ints]:
        """Which rows open a window in which their party is not already inside, and when each of these windows ends,
        together with the windows of the same party that touch it."""
        start = self._windows.start
        opens: Bools = until >= start
        if self._alone:
            return opens, until
        rows = self._together[opens[self._together]]
        reach = np.where(opens[self._together], self._own.place(until[self._together]), -1)
        reach = np.append(-1, np.maximum.accumulate(reach)[:-1])
        new = (self._own.starts > reach)[opens[self._together]]
        opens = np.zeros(len(start), np.bool_)
        opens[rows[new]] = True
        if not len(rows):
            return opens, until
        merged = until.copy()
        merged[rows[new]] = np.maximum.reduceat(until[rows], np.flatnonzero(new))
        return opens, merged
