"""Permits that were given back although no client had them: a release that lowers a count below zero, or a permit that
is put back twice.

What granted acquires do to a key, and what releases do, are opposites: a pop and a push, say. Where more was given back
than is still taken by the clients inside, a request gave back what nothing had taken.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from harness.explain.examples import Side
from harness.history.key_owners import places_of, rows_of
from harness.history.ledger import ENDINGS, Change
from harness.history.never_given_back import opposites
from harness.history.recorded import Recorded


def below_zero(run: Recorded, entered: Side) -> Change | None:
    """The last release that left a count below zero which the client's acquire changed then; None if there is none, or
    the count began anew since."""
    if run.ledger is None:
        return None
    rows = run.ledger.rows
    own = (rows["task"] == entered.client) & (rows["section"] == entered.section) & (rows["f"] == "acquire")
    before = rows["at_ns"] <= entered.start_ns
    low: dict[tuple[str, str], Change | None] = {}
    for row in rows[(before & rows["key"].isin(rows["key"][own].unique())).to_numpy(bool)].index.tolist():
        change = run.ledger.change(row)
        place = (change["node"], change["key"])
        if change["what"] in ENDINGS:
            low[place] = None
        if change["f"] == "release" and str(change["value"]).startswith("-") and str(change["value"])[1:].isdecimal():
            low[place] = change
    return max(filter(None, low.values()), key=lambda change: int(change["at_ns"]), default=None)


def given_twice(run: Recorded, entered: Side) -> Change | None:
    """The last request before the section that gave back a permit which nothing had taken, of a key that the section's
    acquire took from; None if there is none, or the key began anew since."""
    if run.ledger is None:
        return None
    rows = run.ledger.rows
    own = (rows["task"] == entered.client) & (rows["section"] == entered.section) & (rows["f"] == "acquire")
    known = rows["key"].isin(rows["key"][own].unique()) & (rows["at_ns"] <= entered.start_ns)
    found = [
        row
        for _, some in rows[known.to_numpy(bool)].groupby(["node", "key"], observed=True)
        if (row := _given_twice(run, some)) is not None
    ]
    return max(map(run.ledger.change, found), key=lambda change: int(change["at_ns"]), default=None)


def _given_twice(run: Recorded, rows: pd.DataFrame) -> int | None:
    """Of one key on one node. A release of a section that was not seen to take anything counts for nothing: its take
    may have been out of sight."""
    if (pair := opposites(rows)) is None:
        return None
    take = pair[0]
    places = places_of(run.sections)
    start, end, deadline = (run.sections[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "deadline_min_ns"))
    taken: Counter[int] = Counter()
    out, last = 0, None
    before: tuple[Any, ...] = ()
    names = ("what", "did", "f", "at_ns", "request", "task", "life", "section")
    for row, (what, did, f, at_ns, request, *of) in zip(rows.index.tolist(), rows_of(rows, *names), strict=True):
        is_one, before = (request, did) == before and what == "deleted", (request, did)
        if did not in pair and what in ENDINGS:
            taken, out, last = Counter(), 0, None
        if is_one or did not in pair:
            continue
        place = places.get(tuple(of))
        if did == take:
            out += 1
            if place is not None:
                taken[place] += 1
        elif f != "release" or (place is not None and taken[place]):
            out -= 1
            others = [p for p in taken if p != place and start[p] <= at_ns < min(end[p], deadline[p])]
            last = row if out < len(others) else last
    return last
