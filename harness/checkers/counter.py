"""Were updates lost?

Every accepted write is what its client had read, plus one. So a write of value v builds on the v - 1 increments that
had survived by then, and loses all others that were accepted before it. A write survives if every later one of its key
is larger. Only acknowledged increments count: a client was told that they were written.

The same record shows whether the resource itself can be trusted: it has every acknowledged write, no value appears from
nowhere, and the last read returns what the last write left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np
import pandas as pd

from fencepost.text import count, printable
from harness.config import Requirement
from harness.figures import DATA, Cell, CheckerFigures, Part, Row, Tile
from harness.history.groups import (
    Bools,
    Groups,
    Ints,
    address,
    all_different,
    codes_in,
    first_not_larger,
    look_up,
    width_of,
)
from harness.history.overlap_counts import overlapped_keys
from harness.history.overlaps import BLAMES, NO_OVERLAP, blames_between
from harness.history.recorded import Recorded
from harness.history.sections import positions_of
from harness.verdict import Answer, Blame, Finding

ONLY_IF_NAMED: Final = True

ALL: Final[tuple[Requirement, ...]] = get_args(Requirement)
_WHOSE: Final[dict[Blame, str]] = {
    "lock": "in overlaps blamed on the lock",
    "client": "by a client that had outlived its validity",
    "undecided": "in overlaps of undecided blame",
    "harness": "although no two sections of the key overlapped: the harness or its resource is wrong",
}


_FINAL_KEYS: Final = 20
_SHOWN_KEYS: Final = 8


class Figures(CheckerFigures, frozen=True):
    """`acknowledged` and `accepted` writes. `lost`: acknowledged and lost; `lost_unacknowledged`: lost, but no client
    was told that they were written. `final`: the counters at the last read, of 20 keys at most. `complete`: whether
    the resource's record is whole."""

    acknowledged: int
    accepted: int
    lost: int
    lost_unacknowledged: int
    final: dict[str, int]
    complete: bool

    def rows(self) -> Iterator[Row]:
        yield Row("updates", f"{count(self.lost)} lost of {count(self.acknowledged)} acknowledged", order=40)

    def tiles(self) -> Iterator[Tile]:
        note = f"of {count(self.acknowledged)} acknowledged"
        yield Tile("Lost updates", count(self.lost), note, "bad" if self.lost else "", order=30)

    def parts(self) -> Iterator[Part]:
        pairs = [
            ("Increments acknowledged", count(self.acknowledged)),
            ("Writes accepted", count(self.accepted)),
            ("Counter at the last read", self._final()),
            ("Lost updates", count(self.lost)),
        ]
        if self.lost_unacknowledged:
            pairs.append(("Lost, but never acknowledged", count(self.lost_unacknowledged)))
        if not self.complete:
            pairs.append(("Complete", "no: the last read, or a part of the record, is missing"))
        yield Part(
            DATA,
            order=30,
            hint="The lock protects a counter in a store of its own, which no fault touches unless asked to. Every "
            "section adds one. What is missing at the end was lost.",
            pairs=tuple(pairs),
        )

    def cells(self) -> Iterator[Cell]:
        yield Cell("lost", count(self.lost), legend="lost: updates", order=30)

    def _final(self) -> str:
        shown = [f"{printable(key)} {count(value)}" for key, value in list(self.final.items())[:_SHOWN_KEYS]]
        more = len(self.final) - _SHOWN_KEYS
        return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def check(run: Recorded) -> Answer:
    writes = run.writes
    by_key = _Writes.of(writes, run.writes_by_key)
    asked = ((run.ops["f"] == "write") & (run.ops["outcome"] == "ok")).to_numpy(np.bool_)
    acknowledged = run.ops if asked.all() else run.ops[asked]
    complete = run.final_values is not None
    told, missing = _matched(acknowledged, writes)
    lost = by_key.lost()
    lost_and_told = lost & told[by_key.row]
    findings = _lost_updates(run, by_key, np.flatnonzero(lost_and_told))
    if complete:
        findings += _missing(run, acknowledged, np.flatnonzero(missing))
        findings += _final_differs(run, writes.iloc[run.writes_by_key.last()])
    findings += _from_nowhere(writes, by_key)
    unknown: tuple[str, ...] = ()
    if not complete and not lost_and_told.any():
        unknown = ("the resource's record is incomplete: lost updates cannot be ruled out",)
    total = int(lost_and_told.sum())
    figures = Figures(
        acknowledged=len(acknowledged),
        accepted=len(writes),
        lost=total,
        lost_unacknowledged=int(lost.sum()) - total,
        final=dict(sorted((run.final_values or {}).items())[:_FINAL_KEYS]),
        complete=complete,
    )
    return Answer(figures, tuple(findings), unknown)


@dataclass(frozen=True, slots=True)
class _Writes:
    """Accepted writes of the keys that did not simply count 1, 2, 3, …; nothing is wrong with the other keys. Ordered
    by key, and in the resource's order within each. `row`: their rows in the table."""

    row: Ints
    key: Ints
    value: Ints

    @classmethod
    def of(cls, writes: pd.DataFrame, by_key: Groups) -> _Writes:
        """`by_key`: as in `Recorded.writes_by_key`."""
        values = writes["value"].to_numpy(np.int64)
        value: Ints = by_key.take(values)
        odd = np.ones(len(value), np.bool_)
        odd[1:] = value[1:] != value[:-1] + 1
        odd[by_key.begins] = value[by_key.begins] != 1
        odd_keys = by_key.keep(by_key.spread(odd))
        return cls(odd_keys.order, odd_keys.number, values[odd_keys.order])

    def lifted(self) -> Ints:
        """The values, each key's, and 0, above all of the key before it."""
        lifted: Ints = self.value - self.value.min(initial=0)
        return lifted + self.key * width_of(lifted)

    def lost(self) -> Bools:
        """Which writes have a later one of their key that is not larger."""
        lifted = self.lifted()
        later = np.append(np.minimum.accumulate(lifted[::-1])[::-1][1:], np.iinfo(np.int64).max)[: len(lifted)]
        lost: Bools = later <= lifted
        return lost


def _matched(acknowledged: pd.DataFrame, writes: pd.DataFrame) -> tuple[Bools, Bools]:
    """Which accepted writes were acknowledged, and which acknowledged writes were not accepted."""
    tables = (acknowledged, writes)
    names, more = (t["client"].astype("category").cat.categories for t in tables)
    if not names.equals(more):
        names = names.union(more)
    clients = [codes_in(names, t["client"]) for t in tables]
    numbers, values = ([t[name].to_numpy(np.int64) for t in tables] for name in ("section", "value"))
    if all(np.array_equal(*column) for column in (clients, numbers, values)):
        return np.ones(len(writes), np.bool_), np.zeros(len(acknowledged), np.bool_)
    sections = address(clients, numbers)
    if all(all_different(numbers) for numbers in sections):
        # At most one write a section, as a rule: its section finds it.
        ours, theirs = sections
        place, back = look_up(ours, theirs), look_up(theirs, ours)
        told = (place >= 0) & (values[0][place] == values[1]) if len(ours) else np.zeros(len(theirs), np.bool_)
        seen = (back >= 0) & (values[1][back] == values[0]) if len(theirs) else np.zeros(len(ours), np.bool_)
        return told, ~seen
    ours, theirs = address(sections, [v - min(int(v.min()) for v in values if len(v)) for v in values])
    return np.isin(theirs, ours), ~np.isin(ours, theirs)


def _lost_updates(run: Recorded, writes: _Writes, lost: Ints) -> list[Finding]:
    """`lost`: places of the writes that were acknowledged and lost."""
    if not len(lost):
        return []
    by = first_not_larger(writes.lifted(), lost)
    table, losers, winners = run.writes, writes.row[lost], writes.row[by]
    position = positions_of(table.iloc[np.concatenate([losers, winners])], run.sections)
    whose = blames_between(run.sections, position[: len(lost)], position[len(lost) :]).astype(np.int64)
    apart = whose == NO_OVERLAP
    if apart.any():
        all_told = run.final_values is not None and run.timeline.end_ns is not None
        excused = table["key"].iloc[losers].isin(overlapped_keys(run.sections)).to_numpy(np.bool_) | (not all_told)
        whose[apart] = np.where(excused[apart], BLAMES.index("undecided"), len(BLAMES))
    findings = []
    accused: tuple[Blame, ...] = (*BLAMES, "harness")
    for place, blame in enumerate(accused):
        which = np.flatnonzero(whose == place)
        if not len(which):
            continue
        times = len(which)
        findings.append(
            Finding(
                kind="lost-update",
                blame=blame,
                text=f"{times} acknowledged {'update was' if times == 1 else 'updates were'} lost {_WHOSE[blame]}",
                breaks=ALL if blame == "harness" else ("data",),
                count=times,
                examples=tuple(
                    {"key": str(table["key"].iloc[row]), "lost": _write(table, row), "by": _write(table, by_row)}
                    for row, by_row in zip(losers[which[:5]].tolist(), winners[which[:5]].tolist(), strict=True)
                ),
            )
        )
    return findings


def _write(writes: pd.DataFrame, row: int) -> dict[str, object]:
    write = writes.iloc[row]
    return {"client": str(write.client), "section": int(write.section), "value": int(write.value)}


def _missing(run: Recorded, acknowledged: pd.DataFrame, missing: Ints) -> list[Finding]:
    if not len(missing):
        return []
    ops = acknowledged.iloc[missing]
    examples = tuple(
        {
            "client": str(op.client),
            "life": int(op.life),
            "section": int(op.section),
            "key": str(op.key),
            "value": int(op.value),
            "at_ms": (int(op.complete_ns) - run.timeline.start_ns) / 1e6,
        }
        for _, op in ops.head(5).iterrows()
    )
    text = f"{len(ops)} acknowledged {'write is' if len(ops) == 1 else 'writes are'} missing from the resource's record"
    return [Finding("unrecorded-write", "resource", text, ALL, len(ops), examples)]


def _final_differs(run: Recorded, last: pd.DataFrame) -> list[Finding]:
    """`last`: the last accepted write of each key."""
    left = dict(zip(last["key"].astype(str), last["value"].astype(int), strict=True))
    final = run.final_values or {}
    wrong = [k for k in sorted(final.keys() | left.keys()) if final.get(k, 0) != left.get(k, 0)]
    if not wrong:
        return []
    examples = tuple({"key": k, "read": final.get(k, 0), "last_write": left.get(k, 0)} for k in wrong[:5])
    text = f"the last read of {len(wrong)} counters differs from the last accepted write"
    return [Finding("final-value", "resource", text, ALL, len(wrong), examples)]


def _from_nowhere(table: pd.DataFrame, writes: _Writes) -> list[Finding]:
    """Values that are not one more than any earlier value."""
    if not len(writes.row):
        return []
    lifted = writes.lifted()
    floor = lifted - writes.value  # where 0 lies, on the line of this key
    highest = np.append(floor[0], np.maximum.accumulate(lifted)[:-1])
    rows = writes.row[(lifted > np.maximum(highest, floor) + 1) | (writes.value < 1)]
    if not len(rows):
        return []
    examples: tuple[dict[str, object], ...] = tuple(
        {"key": str(table["key"].iloc[row]), "write": _write(table, row)} for row in rows[:5].tolist()
    )
    text = f"{len(rows)} writes have a value that follows from no earlier value"
    return [Finding("impossible-value", "resource", text, ALL, len(rows), examples)]
