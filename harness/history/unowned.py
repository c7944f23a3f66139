"""Keys and values on the nodes that no client owns: counts, turns, marks that a key is free, lists of who waits.

All of it is told by who changed the key, and in which calls (`harness.history.ledger`), not by names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from harness.history.commands import ADD_FIELDS, COUNT, RUN_SCRIPTS
from harness.history.groups import where
from harness.history.key_changes import SETS

if TYPE_CHECKING:
    from harness.history.ledger import Ledger
    from harness.history.run_tables import RunTables

_IN_PLACE: Final = ("APPEND", "SETRANGE", "SETBIT", "BITFIELD")
_TURNS: Final = 3
_MOST_DIGITS: Final = 18
"""More are no number that a server counts with."""
_COUNT: Final = re.compile("-*[0-9]+").fullmatch


class Unowned(NamedTuple):
    """`counters`: the keys that are strings which requests change in place, or that tell whose turn it is. `places`:
    those in which a lock that lets several clients in counts them. `queues`: the hashes that tell who waits. `marks`:
    the values that say that a key is free. `counts`: the numbers that scripts set for several clients."""

    counters: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    counts: frozenset[str] = frozenset()

    @property
    def values(self) -> frozenset[str]:
        return self.marks | self.counts

    @classmethod
    def of(cls, run: RunTables, ledger: Ledger) -> Unowned:
        rows = ledger.rows
        return cls(_counters(rows), _places(run, rows), _queues(run, rows), _marks(run, rows), _counts(rows))


def _counters(rows: pd.DataFrame) -> frozenset[str]:
    """Of numbers that tell whose turn it is, each is set over the one before."""
    over = where(rows, rows["value"].notna(), rows["was"].notna(), what="overwritten")
    pairs = zip(over["value"], over["was"], strict=True)
    is_next = np.array([_is_number(now) and _is_number(was) and int(now) == int(was) + 1 for now, was in pairs], bool)
    every, turns = (some.astype(str).value_counts() for some in (over["key"], over["key"][is_next]))
    turns = turns[(turns >= _TURNS) & (2 * turns >= every.reindex(turns.index))]
    return frozenset([*turns.index, *_keys(rows, rows["did"].isin(_IN_PLACE))])


def _places(run: RunTables, rows: pd.DataFrame) -> frozenset[str]:
    """A reader's field of a hash is its own, and may be counted, too."""
    if run.is_exclusive:
        return frozenset()
    return _keys(rows, rows["did"].isin((*COUNT, "HINCRBY") if run.config.permits > 1 else COUNT))


def _queues(run: RunTables, rows: pd.DataFrame) -> frozenset[str]:
    """The hashes to which acquires add fields that are refused then, although they are another client's: of a lock with
    one holder they tell who waits, and for how long each entry counts is not told by the time to live. If there are
    such, those of other keys are of that kind, too."""
    if not run.is_exclusive:
        return frozenset()
    is_added = rows["did"].isin(ADD_FIELDS)
    refused = {"what": "changed", "is_in_call": True, "f": "acquire", "outcome": "fail"}
    own = where(rows, is_added, rows["of"] >= 0, rows["client"].notna(), **refused)
    before = rows["client"].iloc[own["of"].to_numpy(np.int64)]
    is_others = before.notna().to_numpy(bool) & (before.to_numpy(object) != own["client"].to_numpy(object))
    return _keys(rows, is_added) if is_others.any() else frozenset()


def _marks(run: RunTables, rows: pd.DataFrame) -> frozenset[str]:
    """Of a lock with one holder, what its releases leave in a hash is no holder's, either (a token, say), unless an
    acquire has set just that."""
    marks = set(_of_several(where(rows, f="release", what=SETS)))
    if run.is_exclusive:
        acquired = where(rows, f="acquire", what=SETS)["value"]
        left = _of_several(where(rows, f="release", did="HDEL"))
        marks |= set(left) - set(acquired.dropna().astype(str))
    return frozenset(value for value in marks if not _COUNT(value))


def _counts(rows: pd.DataFrame) -> frozenset[str]:
    return frozenset(filter(_COUNT, _of_several(where(rows, command=RUN_SCRIPTS, what=SETS))))


def _of_several(rows: pd.DataFrame) -> list[str]:
    """The values that requests of several clients set, or left."""
    own = where(rows, rows["value"].notna(), cause="request", by="client")
    setters = own.groupby(own["value"].astype(str))["client"].nunique()
    return [str(value) for value in setters.index[setters > 1]]


def _is_number(value: str) -> bool:
    return value.isdecimal() and len(value) <= _MOST_DIGITS


def _keys(rows: pd.DataFrame, some: pd.Series) -> frozenset[str]:
    return frozenset(where(rows, some)["key"].astype(str))
