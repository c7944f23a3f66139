"""Were updates lost?

Every accepted write is what its client had read, plus one. So a write of value v was built on the v - 1 increments
that had survived by then; all others that were accepted before are lost by it. A write survives if every later one of
its key is larger. What counts is what a client was told: an increment that was acknowledged and is lost.

The same record shows whether the resource itself can be believed: every acknowledged write is in it, no value appears
from nowhere, and the last read gives what the last write left.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.checkers.base import Answer, Blame, Finding, Recorded
from harness.columns import codes_in
from harness.config import Requirement
from harness.overlaps import blames_between, overlapping_pairs
from harness.sections import positions_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ALL: Final[tuple[Requirement, ...]] = get_args(Requirement)
_WHOSE: Final[dict[Blame, str]] = {
    "lock": "in overlaps blamed on the lock",
    "client": "by a client that had outlived its validity",
    "undecided": "in overlaps of which what was recorded allows both readings",
    "harness": "although no two sections of the key overlapped: the harness or its resource is wrong",
}


def check(run: Recorded) -> Answer:
    """Figures: `acknowledged` and `accepted` writes; `lost`: acknowledged and lost; `lost_unacknowledged`; `final`: the
    counters at the last read (20 keys); `complete`: whether the resource's record is whole."""
    writes = run.writes.sort_values("key", kind="stable", ignore_index=True)
    key: Ints = np.asarray(writes["key"].astype("category").cat.codes, np.int64)
    value: Ints = writes["value"].to_numpy(np.int64)
    acknowledged = run.ops[(run.ops["f"] == "write") & (run.ops["outcome"] == "ok")]
    complete = run.final_values is not None
    told, missing = _matched(acknowledged, writes)
    lost = _lost(key, value)
    findings = _lost_updates(run, writes, key, value, lost, told)
    if complete:
        findings += _missing(run, acknowledged[missing])
        findings += _final_differs(run, writes)
    findings += _from_nowhere(writes, key, value)
    unknown: tuple[str, ...] = ()
    if not complete and not (lost & told).any():
        unknown = ("the resource's record is incomplete: lost updates cannot be ruled out",)
    figures: dict[str, object] = {
        "acknowledged": len(acknowledged),
        "accepted": len(writes),
        "lost": int((lost & told).sum()),
        "lost_unacknowledged": int((lost & ~told).sum()),
        "final": dict(sorted((run.final_values or {}).items())[:20]),
        "complete": complete,
    }
    return Answer(findings=tuple(findings), unknown=unknown, figures=figures)


def _matched(acknowledged: pd.DataFrame, writes: pd.DataFrame) -> tuple[Bools, Bools]:
    """Which accepted writes were acknowledged, and which acknowledged writes were not accepted."""
    tables = (acknowledged, writes)
    names = pd.Index(sorted({name for t in tables for name in t["client"].astype(str).unique()}))
    wide, tall = (1 + max(int(t[c].max()) if len(t) else 0 for t in tables) for c in ("section", "value"))
    ours, theirs = (
        (codes_in(names, t["client"]) * wide + t["section"].to_numpy(np.int64)) * tall + t["value"].to_numpy(np.int64)
        for t in tables
    )
    return np.isin(theirs, ours), ~np.isin(ours, theirs)


def _lost(key: Ints, value: Ints) -> Bools:
    """Which writes have a later one of their key that is not larger; rows are ordered by key."""
    if not len(value):
        return np.zeros(0, np.bool_)
    raised = value + key * (int(value.max()) + 1)
    later = np.append(np.minimum.accumulate(raised[::-1])[::-1][1:], np.iinfo(np.int64).max)
    lost: Bools = later <= raised
    return lost


def _lost_by(key: Ints, value: Ints, lost: Bools) -> dict[int, int]:
    """For each lost write the one that first undid it: the next one of its key that is not larger.

    Such a write is never larger than the one right before it, so only those and the lost ones are looked at.
    """
    falls = np.append(False, (value[1:] <= value[:-1]) & (key[1:] == key[:-1]))[: len(value)]
    by: dict[int, int] = {}
    alive: list[int] = []
    for row in np.flatnonzero(lost | falls).tolist():
        if alive and key[alive[-1]] != key[row]:
            alive.clear()
        while alive and value[alive[-1]] >= value[row]:
            by[alive.pop()] = row
        if lost[row]:
            alive.append(row)
    return by


def _lost_updates(
    run: Recorded, writes: pd.DataFrame, key: Ints, value: Ints, lost: Bools, told: Bools
) -> list[Finding]:
    pairs = [(row, by) for row, by in sorted(_lost_by(key, value, lost).items()) if told[row]]
    if not pairs:
        return []
    position = positions_of(writes, run.sections)
    losers = np.array([row for row, _ in pairs])
    winners = np.array([by for _, by in pairs])
    overlapping = overlapping_pairs(run.sections)
    keys_with_overlap = set(run.sections["key"].iloc[np.unique(overlapping.earlier)].astype(str))
    all_told = run.final_values is not None and run.timeline.end_ns is not None
    blames: list[Blame] = []
    for row, blame in zip(losers, blames_between(run.sections, position[losers], position[winners]), strict=True):
        excused = str(writes["key"].iloc[row]) in keys_with_overlap or not all_told
        blames.append(blame or ("undecided" if excused else "harness"))
    findings = []
    for blame, count in Counter(blames).items():
        examples = [pair for pair, whose in zip(pairs, blames, strict=True) if whose == blame][:5]
        findings.append(
            Finding(
                checker="counter",
                kind="lost-update",
                blame=blame,
                text=f"{count} acknowledged {'update was' if count == 1 else 'updates were'} lost {_WHOSE[blame]}",
                breaks=ALL if blame == "harness" else ("data",),
                count=count,
                examples=tuple(
                    {"key": str(writes["key"].iloc[row]), "lost": _write(writes, row), "by": _write(writes, by)}
                    for row, by in examples
                ),
            )
        )
    return findings


def _write(writes: pd.DataFrame, row: int) -> dict[str, object]:
    write = writes.iloc[row]
    return {"client": str(write.client), "section": int(write.section), "value": int(write.value)}


def _missing(run: Recorded, ops: pd.DataFrame) -> list[Finding]:
    if not len(ops):
        return []
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
    text = f"{len(ops)} writes were acknowledged that the resource's record does not have"
    return [Finding("counter", "unrecorded-write", "resource", text, ALL, len(ops), examples)]


def _final_differs(run: Recorded, writes: pd.DataFrame) -> list[Finding]:
    last = writes.drop_duplicates("key", keep="last")
    left = dict(zip(last["key"].astype(str), last["value"].astype(int), strict=True))
    final = run.final_values or {}
    wrong = [k for k in sorted(final.keys() | left.keys()) if final.get(k, 0) != left.get(k, 0)]
    if not wrong:
        return []
    examples = tuple({"key": k, "read": final.get(k, 0), "last_write": left.get(k, 0)} for k in wrong[:5])
    text = f"{len(wrong)} counters do not read at the end what their last accepted write left"
    return [Finding("counter", "final-value", "resource", text, ALL, len(wrong), examples)]


def _from_nowhere(writes: pd.DataFrame, key: Ints, value: Ints) -> list[Finding]:
    """Values that are not one more than any that was there before."""
    if not len(value):
        return []
    lift = key * (int(value.max()) + 2)
    highest = np.append(0, np.maximum.accumulate(value + lift)[:-1])
    rows = np.flatnonzero((value + lift > np.maximum(highest, lift) + 1) | (value < 1))
    if not len(rows):
        return []
    examples: tuple[dict[str, object], ...] = tuple(
        {"key": str(writes["key"].iloc[row]), "write": _write(writes, row)} for row in rows[:5].tolist()
    )
    text = f"{len(rows)} writes have a value that is one more than no value before"
    return [Finding("counter", "impossible-value", "resource", text, ALL, len(rows), examples)]
