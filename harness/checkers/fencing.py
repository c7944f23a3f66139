"""Did fencing keep late writes out?

A write is *stale* if the resource had accepted a write of a later holder of the key before it. Who is later is told by
the tokens; for a key with writes that show none, by the order in which the sections started. Whether a write came
after a later holder's *read* is not judged here: the resource's record orders writes, and reads are placed only by the
clients' clocks around them. What such a write costs shows as a lost update.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.checkers.base import Answer, Blame, Finding, Recorded
from harness.grouping import Bools, Ints, TimeLine, codes_of, stable_order
from harness.overlaps import BLAMES, NO_OVERLAP, blames_between
from harness.sections import positions_of


def check(run: Recorded) -> Answer:
    """Figures: `mode` (`--fencing`), `token_source`, `stale_writes_accepted`, `stale_writes_rejected`,
    `stale_reads_rejected`, `tokens_not_increasing`."""
    refused = run.ops[run.ops["stale"].to_numpy(np.bool_)]
    stale = _stale(run)
    disorder = _disorder(run.sections)
    source = run.sections["token_source"].astype("category").cat
    seen = source.categories[np.unique(source.codes[source.codes >= 0])]
    figures: dict[str, object] = {
        "mode": run.config.fencing,
        "token_source": "+".join(sorted(seen.astype(str))) or "none",
        "stale_writes_accepted": len(stale.row),
        "stale_writes_rejected": int((refused["f"] == "write").sum()),
        "stale_reads_rejected": int((refused["f"] == "read").sum()),
        "tokens_not_increasing": len(disorder),
    }
    findings = _accepted(run, stale) + _not_increasing(run, disorder)
    return Answer(findings=tuple(findings), figures=figures)


@dataclass(frozen=True, slots=True)
class _Stale:
    """Stale writes and, for each, the later holder's write before it: rows of the writes' table and the positions of
    their sections. `by_token`: it was told by the tokens."""

    row: Ints
    holder: Ints
    section: Ints
    holder_section: Ints
    by_token: Bools


def _stale(run: Recorded) -> _Stale:
    key = codes_of(run.writes["key"])
    position = positions_of(run.writes, run.sections)
    shown, token = _known(run.writes["token"])
    without = np.zeros(int(key.max()) + 1 if len(key) else 0, np.bool_)
    without[key[~shown]] = True
    by_token = ~without[key]
    row = stable_order(key)
    row = row[by_token[row] | (position[row] >= 0)]
    # `sections` is ordered by start, so a position is a rank.
    rank = np.where(by_token, token, position)[row]
    if len(rank):
        rank = rank - rank.min()
        rank += key[row] * (int(rank.max()) + 1)
    highest = np.maximum.accumulate(rank)
    stale = np.flatnonzero(rank < highest)
    holder = row[np.searchsorted(highest, highest[stale])]
    return _Stale(row[stale], holder, position[row[stale]], position[holder], by_token[row[stale]])


def _accepted(run: Recorded, stale: _Stale) -> list[Finding]:
    if not len(stale.row):
        return []
    whose = blames_between(run.sections, stale.section, stale.holder_section).astype(np.int64)
    whose[whose == NO_OVERLAP] = BLAMES.index("client")
    if run.config.fencing != "none":
        whose[stale.by_token] = len(BLAMES)
    findings = []
    accused: tuple[Blame, ...] = (*BLAMES, "resource")
    for place, blame in enumerate(accused):
        which = np.flatnonzero(whose == place)
        if not len(which):
            continue
        examples: tuple[dict[str, object], ...] = tuple(
            {"key": str(run.writes["key"].iloc[row]), "stale": _write(run.writes, row), "after": _write(run.writes, by)}
            for row, by in zip(stale.row[which[:5]].tolist(), stale.holder[which[:5]].tolist(), strict=True)
        )
        noun = "stale write was" if len(which) == 1 else "stale writes were"
        text = f"{len(which)} {noun} accepted after a write of a later holder"
        if blame == "resource":
            text += " although a smaller token was shown"
        findings.append(Finding("fencing", "stale-write-accepted", blame, text, ("data",), len(which), examples))
    return findings


def _write(writes: pd.DataFrame, row: int) -> dict[str, object]:
    write = writes.iloc[int(row)]
    token = None if pd.isna(write.token) else int(write.token)
    return {"client": str(write.client), "section": int(write.section), "value": int(write.value), "token": token}


def _disorder(sections: pd.DataFrame) -> Ints:
    """Positions of sections whose token is not larger than that of every section of the key that ended before."""
    shown, token = _known(sections["token"])
    if not shown.any():
        return np.zeros(0, np.int64)
    rows = np.flatnonzero(shown)
    key = codes_of(sections["key"])[rows]
    order = stable_order(key)
    rows, key, token = rows[order], key[order], token[rows[order]]
    # Who ended before a section started before it. So keys whose tokens grow from start to start are in order.
    falls = (token[1:] <= token[:-1]) & (key[1:] == key[:-1])
    if not falls.any():
        return np.zeros(0, np.int64)
    suspect = np.isin(key, key[1:][falls])
    rows, key, token = rows[suspect], key[suspect], token[suspect]
    start, end = (sections[name].to_numpy(np.int64)[rows] for name in ("start_ns", "end_ns"))
    line = TimeLine.of(key, start)
    ends = line.place(end)
    by_end = np.argsort(ends, kind="stable")
    lifted = token - token.min()
    lifted += key * (int(lifted.max()) + 1)
    highest = np.append(-1, np.maximum.accumulate(lifted[by_end]))
    return np.sort(rows[highest[np.searchsorted(ends[by_end], line.starts, side="left")] >= lifted])


def _known(tokens: pd.Series) -> tuple[Bools, Ints]:
    """Which of them are there, and their values (0 for those that are not)."""
    missing = tokens.isna().to_numpy(np.bool_)
    return ~missing, (tokens.fillna(0) if missing.any() else tokens).to_numpy(np.int64)


def _not_increasing(run: Recorded, disorder: Ints) -> list[Finding]:
    findings = []
    rows = run.sections.iloc[disorder]
    for source, some in rows.groupby(rows["token_source"].astype(str)):
        blame: Blame = "lock" if source == "lock" else "resource"
        examples = tuple(
            {
                "client": str(section.client),
                "section": int(section.section),
                "key": str(section.key),
                "token": int(section.token),
                "start_ms": (int(section.start_ns) - run.timeline.start_ns) / 1e6,
            }
            for _, section in some.head(5).iterrows()
        )
        text = f"{len(some)} sections got a token that is not larger than that of a section that had ended before"
        findings.append(Finding("fencing", "token-not-increasing", blame, text, ("data",), len(some), examples))
    return findings
