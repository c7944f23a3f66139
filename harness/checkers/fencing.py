"""Did fencing keep late writes out?

A write is *stale* if the resource had accepted a write of a later holder of the key before it. Who is later is told by
the tokens; for a key with writes that show none, by the order in which the sections started. Whether a write came
after a later holder's *read* is not judged here: the resource's record orders writes, and reads are placed only by the
clients' clocks around them. What such a write costs shows as a lost update.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.checkers.base import Answer, Blame, Finding, Recorded
from harness.overlaps import blames_between
from harness.sections import positions_of

Ints = npt.NDArray[np.int64]


def check(run: Recorded) -> Answer:
    """Figures: `mode` (`--fencing`), `token_source`, `stale_writes_accepted`, `stale_writes_rejected`,
    `stale_reads_rejected`, `tokens_not_increasing`."""
    refused = run.ops[run.ops["stale"].to_numpy(np.bool_)]
    stale, holder, writes = _stale(run)
    disorder = _disorder(run.sections)
    sources = sorted(set(run.sections["token_source"].dropna().astype(str)))
    figures: dict[str, object] = {
        "mode": run.config.fencing,
        "token_source": "+".join(sources) or "none",
        "stale_writes_accepted": len(stale),
        "stale_writes_rejected": int((refused["f"] == "write").sum()),
        "stale_reads_rejected": int((refused["f"] == "read").sum()),
        "tokens_not_increasing": len(disorder),
    }
    findings = _accepted(run, writes, stale, holder) + _not_increasing(run, disorder)
    return Answer(findings=tuple(findings), figures=figures)


def _stale(run: Recorded) -> tuple[Ints, Ints, pd.DataFrame]:
    """Rows of stale writes, the rows of the later holders' writes before them, and the table that they are rows of."""
    writes = run.writes.assign(position=positions_of(run.writes, run.sections))
    by_token = ~writes["token"].isna().groupby(writes["key"].astype(str)).transform("any").to_numpy(np.bool_)
    writes = writes.assign(by_token=by_token)
    writes = writes[by_token | (writes["position"] >= 0).to_numpy()].sort_values(
        "key", kind="stable", ignore_index=True
    )
    if not len(writes):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), writes
    token = writes["token"].fillna(0).to_numpy(np.int64)
    # `sections` is ordered by start, so a position is a rank.
    rank: Ints = np.where(writes["by_token"].to_numpy(np.bool_), token, writes["position"].to_numpy(np.int64))
    rank = rank - rank.min()
    rank = rank + np.asarray(writes["key"].astype("category").cat.codes, np.int64) * (int(rank.max()) + 1)
    highest = np.maximum.accumulate(rank)
    stale = np.flatnonzero(rank < highest)
    return stale, np.searchsorted(highest, highest[stale]), writes


def _accepted(run: Recorded, writes: pd.DataFrame, stale: Ints, holder: Ints) -> list[Finding]:
    if not len(stale):
        return []
    position = writes["position"].to_numpy(np.int64)
    checked = run.config.fencing != "none"
    blames: list[Blame] = []
    shown = writes["by_token"].to_numpy(np.bool_)[stale].tolist()
    for blame, by_token in zip(blames_between(run.sections, position[stale], position[holder]), shown, strict=True):
        blames.append("resource" if checked and by_token else blame or "client")
    findings = []
    for blame in dict.fromkeys(blames):
        rows = [pair for pair, whose in zip(zip(stale, holder, strict=True), blames, strict=True) if whose == blame]
        examples: tuple[dict[str, object], ...] = tuple(
            {"key": str(writes["key"].iloc[row]), "stale": _write(writes, row), "after": _write(writes, later)}
            for row, later in rows[:5]
        )
        noun = "stale write was" if len(rows) == 1 else "stale writes were"
        text = f"{len(rows)} {noun} accepted after a write of a later holder"
        if blame == "resource":
            text += " although a smaller token was shown"
        findings.append(Finding("fencing", "stale-write-accepted", blame, text, ("data",), len(rows), examples))
    return findings


def _write(writes: pd.DataFrame, row: int) -> dict[str, object]:
    write = writes.iloc[int(row)]
    token = None if pd.isna(write.token) else int(write.token)
    return {"client": str(write.client), "section": int(write.section), "value": int(write.value), "token": token}


def _disorder(sections: pd.DataFrame) -> Ints:
    """Positions of sections whose token is not larger than that of every section of the key that ended before."""
    found: list[Ints] = [np.zeros(0, np.int64)]
    with_token = np.flatnonzero(sections["token"].notna())
    keys = np.asarray(sections["key"].astype("category").cat.codes)[with_token]
    order = np.argsort(keys, kind="stable")
    edges = np.flatnonzero(np.diff(keys[order])) + 1
    for rows in np.split(with_token[order], edges):
        start, end, token = (sections[name].iloc[rows].to_numpy(np.int64) for name in ("start_ns", "end_ns", "token"))
        by_end = np.argsort(end, kind="stable")
        highest = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(token[by_end]))
        found.append(rows[highest[np.searchsorted(end[by_end], start, side="left")] >= token])
    return np.concatenate(found)


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
