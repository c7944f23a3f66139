"""How far windows reach among rows that are ordered by group and start, and how many windows are open at each row.

Most windows either end before the next row of their group starts or are open until its last row; only the others are
searched for, in one sorted pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.groups import Bools, Codes, Ints, TimeLine, ascending

Places = npt.NDArray[Any]
"""Rows by their place, in 32 bits where these are enough."""


def last_reached(group: Codes, start: Places, until: Places) -> Places:
    """For each row the last row of its group that starts while its window is open; the row itself if there is none.

    The rows are ordered by group, and by start within each group. A window is [start, until]: equal times meet.
    """
    count = len(start)
    places: Places = np.arange(count, dtype=np.int32 if count < 2**31 else np.int64)
    if not count:
        return places
    ends = np.append(np.flatnonzero(group[1:] != group[:-1]), count - 1)
    further = np.append(until[:-1] >= start[1:], False)
    further[ends] = False
    to_end = further & (until >= _for_rows(start[ends], ends))
    np.copyto(places, _for_rows(ends.astype(places.dtype), ends), where=to_end)
    further ^= to_end
    if len(between := np.flatnonzero(further)):
        line = TimeLine.of(group, start)
        found = line.place(until, between)
        if not ascending(found):
            in_order = np.argsort(found)
            between, found = between[in_order], found[in_order]
        places[between] = np.searchsorted(line.starts, found, side="right") - 1
    return places


def open_windows(reach: Places, is_open: Bools) -> Places:
    """For each row whose window is open at all the number of earlier rows of its group whose windows reach it; 0 for
    the others.

    `reach`: as `last_reached` says; a row whose window is not open reaches only itself.
    """
    ended = np.bincount(reach, minlength=len(reach))
    np.cumsum(ended, out=ended)
    before: Places = np.arange(len(reach), dtype=reach.dtype)
    before[1:] -= ended[:-1]
    if not is_open.all():
        before[~is_open] = 0
    return before


def _for_rows(of_group: Places, ends: Ints) -> Places:
    """What is known of each group, for its rows. `ends`: the last row of each group."""
    return of_group if len(ends) == 1 else np.repeat(of_group, np.diff(ends, prepend=-1))
