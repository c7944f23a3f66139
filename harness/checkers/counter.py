"""Were updates lost?

Every accepted write is what its client had read, plus one. So a write of value v builds on the v - 1 increments that
had survived by then, and loses all others that were accepted before it. A write survives if every later one of its key
is larger. Only acknowledged increments count: a client was told that they were written.

The same record shows whether the resource itself can be trusted: it has every acknowledged write, no value appears from
nowhere, and the last read returns what the last write left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pandas as pd

from harness.checkers.updates import UpdateFigures, answered, impossible
from harness.history.groups import Codes, Groups, Ints, first_not_larger, narrowed, width_of
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

ONLY_IF_NAMED: Final = True


class Figures(UpdateFigures, frozen=True):
    update: ClassVar[str] = "Increments"
    what: ClassVar[str] = "Counter"
    hint: ClassVar[str] = (
        "The lock protects a counter in a store of its own, which no fault touches unless asked to. Every section adds "
        "one. An increment that is missing at the end was lost."
    )


def check(run: Recorded) -> Answer:
    writes = _Writes.of(run.writes, run.writes_by_key)
    return answered(run, Figures, *writes.lost(), _from_nowhere(run, writes))


@dataclass(frozen=True, slots=True)
class _Writes:
    """Accepted writes of the keys that did not simply count 1, 2, 3, …; nothing is wrong with the other keys. Ordered
    by key, and in the resource's order within each. `row`: their rows in the table. `value`: `squeezed`."""

    row: Ints
    key: Codes
    value: Ints

    @classmethod
    def of(cls, writes: pd.DataFrame, by_key: Groups) -> _Writes:
        """`by_key`: as in `Recorded.writes_by_key`."""
        values = writes["value"].to_numpy()
        value = by_key.take(values)
        odd = np.ones(len(value), np.bool_)
        odd[1:] = value[1:] != value[:-1] + 1
        odd[by_key.begins] = value[by_key.begins] != 1
        odd_keys = by_key.keep(by_key.spread(odd))
        return cls(odd_keys.order, narrowed(odd_keys.number), squeezed(values[odd_keys.order]))

    def lifted(self) -> Ints:
        """The values, each key's, and 0, above all of the key before it."""
        lifted: Ints = self.value - self.value.min(initial=0)
        lifted += self.key.astype(np.int64) * width_of(lifted)
        return lifted

    def lost(self) -> tuple[Ints, Ints]:
        """The rows of the writes that have a later one of their key that is not larger, and of the first such one."""
        lifted = self.lifted()
        later = np.append(np.minimum.accumulate(lifted[::-1])[::-1][1:], np.iinfo(np.int64).max)[: len(lifted)]
        lost = np.flatnonzero(later <= lifted)
        return self.row[lost], self.row[first_not_larger(lifted)[lost]] if len(lost) else self.row[lost]


def squeezed(values: Codes) -> Ints:
    """The same numbers closer together, none of them more than twice their count from 0, so that those of many keys fit
    into 64 bits one after the other: their order stays, 0 stays 0, and exactly the ones that were one apart are one
    apart."""
    distinct, which = np.unique(np.append(values, 0), return_inverse=True)
    place = np.append(0, np.cumsum(np.where(distinct[1:] - 1 == distinct[:-1], 1, 2)))
    close: Ints = place[which[:-1]] - place[which[-1]]
    return close


def _from_nowhere(run: Recorded, writes: _Writes) -> list[Finding]:
    """Values that are not one more than any earlier value."""
    if not len(writes.row):
        return []
    lifted = writes.lifted()
    floor = lifted - writes.value  # where 0 lies, on the line of this key
    highest = np.maximum.accumulate(lifted)
    np.maximum(floor[1:], highest[:-1], out=floor[1:])
    floor += 1
    rows = writes.row[(lifted > floor) | (writes.value < 1)]
    return impossible(run, rows, f"{len(rows)} writes have a value that follows from no earlier value")
