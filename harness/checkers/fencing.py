"""Did fencing keep late writes out?

A write is *stale* if the resource had already accepted a write of a later holder of the key. The tokens tell who is
later; for a key with writes that carry no token, the order in which the sections started does. Whether a write came
after a later holder's *read* is not judged here: the resource's record orders writes only, and reads are known only by
the clients' clocks around them. If such a write does harm, it shows as a lost update.

A check of the lock's unique value (`--fencing unique`) promises no order, so no write is stale by its order then; what
such a check must prevent is a lost update.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from fencepost.text import count, plural
from harness.checkers.writes import WHOSE, by_blame, by_when, first_ms, moment_of, shown
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.meeting import together
from harness.explain.words import at
from harness.figures import DATA, CheckerFigures, Part, Row, Tile, Tone
from harness.history.groups import Bools, Groups, Ints, TimeLine, codes_of, known, where, width_of
from harness.history.overlaps import BLAMES, NO_OVERLAP, blames_between
from harness.history.recorded import Recorded
from harness.history.sections import positions_of
from harness.verdict import Answer, Blame, Finding

ONLY_IF_NAMED: Final = True
UNIQUE: Final = "unique"
_GONE: Final = "because another lease's unique value was there"


class Figures(CheckerFigures, frozen=True):
    """`mode`: `--fencing`. `token_source`: who granted the tokens, `none` without any. `tokens_not_increasing`:
    sections whose token is not larger than that of a section that had ended before."""

    mode: str
    token_source: str
    stale_writes_accepted: int
    stale_writes_rejected: int
    stale_reads_rejected: int
    tokens_not_increasing: int

    def rows(self) -> Iterator[Row]:
        if self.mode == UNIQUE:
            yield Row("fencing", f"{plural(self.stale_writes_rejected, 'write')} rejected, {_GONE}", order=50)
        elif self.mode != "none":
            yield Row(
                "fencing",
                f"stale writes: {count(self.stale_writes_accepted)} accepted, {count(self.stale_writes_rejected)} "
                f"rejected; stale reads rejected: {count(self.stale_reads_rejected)}; "
                f"tokens from the {self.token_source}",
                order=50,
            )

    def tiles(self) -> Iterator[Tile]:
        if self.mode == UNIQUE:
            yield Tile("Writes rejected", count(self.stale_writes_rejected), _GONE, order=40)
        elif self.mode != "none":
            tone: Tone = "bad" if self.stale_writes_accepted else ""
            note = f"{count(self.stale_writes_rejected)} rejected"
            yield Tile("Stale writes accepted", count(self.stale_writes_accepted), note, tone, order=40)

    def parts(self) -> Iterator[Part]:
        pairs = [("Fencing", self.mode)]
        if self.mode == UNIQUE:
            pairs.append((f"Writes rejected, {_GONE}", count(self.stale_writes_rejected)))
        elif self.mode != "none":
            pairs += [
                ("Tokens come from", self.token_source),
                ("Stale writes accepted", count(self.stale_writes_accepted)),
                ("Stale writes rejected", count(self.stale_writes_rejected)),
                ("Stale reads rejected", count(self.stale_reads_rejected)),
                ("Tokens that did not increase", count(self.tokens_not_increasing)),
            ]
        yield Part(DATA, order=31, pairs=tuple(pairs))


def check(run: Recorded) -> Answer:
    refused = where(run.ops, stale=True)
    stale = _Stale.none() if run.config.fencing == UNIQUE else _stale(run)
    disorder = _disorder(run.sections, run.sections_by_key)
    source = run.sections["token_source"].astype("category").cat
    codes = source.codes.to_numpy()
    seen = [str(name) for code, name in enumerate(source.categories) if (codes == code).any()]
    figures = Figures(
        mode=run.config.fencing,
        token_source="+".join(sorted(seen)) or "none",
        stale_writes_accepted=len(stale.row),
        stale_writes_rejected=int((refused["f"] == "write").sum()),
        stale_reads_rejected=int((refused["f"] == "read").sum()),
        tokens_not_increasing=len(disorder),
    )
    return Answer(figures, (*_accepted(run, stale), *_not_increasing(run, disorder)))


@dataclass(frozen=True, slots=True)
class _Stale:
    """Stale writes and, for each, the later holder's write before it: rows of the writes' table and the positions of
    their sections. `by_token`: it was told by the tokens."""

    row: Ints
    holder: Ints
    section: Ints
    holder_section: Ints
    by_token: Bools

    @classmethod
    def none(cls) -> _Stale:
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, nothing.astype(np.bool_))


def _stale(run: Recorded) -> _Stale:
    writes, by_key = run.writes, run.writes_by_key
    by_token = shown = writes["token"].notna().to_numpy(np.bool_)
    if shown.all():
        _, rank = known(writes["token"])
    else:
        key, position = codes_of(writes["key"]), positions_of(writes, run.sections)
        by_token = ~np.isin(key, key[~shown])
        # `sections` is ordered by start. Of sections that started in the same nanosecond, none is the later one.
        start: Ints = run.sections["start_ns"].to_numpy(np.int64)
        ties = (start[1:] == start[:-1]).any()
        first = np.append(np.searchsorted(start, start), -1)[position] if ties else position
        rank = np.where(by_token, known(writes["token"])[1], first) if by_token.any() else first
        by_key = by_key.keep(by_key.take(by_token | (position >= 0)))
    # Only keys whose ranks fall somewhere are looked at.
    ranks = by_key.take(rank)
    by_key = by_key.keep(by_key.spread(by_key.within(ranks[1:] < ranks[:-1])))
    row, lifted = by_key.order, _lifted(rank[by_key.order], by_key)
    highest = np.maximum.accumulate(lifted)
    stale = np.flatnonzero(lifted < highest)
    late, holder = row[stale], row[np.searchsorted(highest, highest[stale])]
    section, holder_section = (positions_of(writes.iloc[rows], run.sections) for rows in (late, holder))
    return _Stale(late, holder, section, holder_section, by_token[late])


def _lifted(values: Ints, by_key: Groups) -> Ints:
    """The ranks of the values, each key's above all of the key before it."""
    ranks: Ints = np.unique(values, return_inverse=True)[1]  # tokens may be anything
    return ranks + by_key.number * width_of(ranks)


def _accepted(run: Recorded, stale: _Stale) -> list[Finding]:
    if not len(stale.row):
        return []
    whose = blames_between(run.sections, stale.section, stale.holder_section).astype(np.int64)
    whose[whose == NO_OVERLAP] = BLAMES.index("client")
    if run.config.fencing != "none":
        whose[stale.by_token] = len(BLAMES)
    findings = []
    for blame, which in by_blame(whose, "resource"):
        examples: tuple[dict[str, object], ...] = tuple(
            {
                "key": str(run.writes["key"].iloc[row]),
                "stale": _write(run.writes, row),
                "after": _write(run.writes, by),
                **moment_of(run, row),
            }
            for row, by in zip(stale.row[which[:5]].tolist(), stale.holder[which[:5]].tolist(), strict=True)
        )
        noun = "stale write was" if len(which) == 1 else "stale writes were"
        how = "although it carried a smaller token" if blame == "resource" else WHOSE[blame]
        text = f"{len(which)} {noun} accepted after a write of a later holder, {how}"
        findings.append(STALE.found(blame, text, len(which), examples, first_ms(run, stale.row[which])))
    return findings


def _write(writes: pd.DataFrame, row: int) -> dict[str, object]:
    token = writes["token"].iloc[row]
    return {**shown(writes, row), "token": None if pd.isna(token) else int(token)}


def _disorder(sections: pd.DataFrame, by_key: Groups) -> Ints:
    """Positions of sections whose token is not larger than that of every section of the key that ended before.
    `by_key`: as in `Recorded.sections_by_key`."""
    shown, token = known(sections["token"])
    by_key = by_key.keep(by_key.take(shown))
    # Who ended before a section started before it. So keys whose tokens grow from start to start are in order.
    tokens = by_key.take(token)
    by_key = by_key.keep(by_key.spread(by_key.within(tokens[1:] <= tokens[:-1])))
    rows = by_key.order
    start, end = (sections[name].to_numpy(np.int64)[rows] for name in ("start_ns", "end_ns"))
    line = TimeLine.of(by_key.number, start)
    ends = line.place(end)
    by_end = np.argsort(ends, kind="stable")
    lifted = _lifted(token[rows], by_key)
    highest = np.append(-1, np.maximum.accumulate(lifted[by_end]))
    return np.sort(rows[highest[np.searchsorted(ends[by_end], line.starts, side="left")] >= lifted])


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
                "at_ms": run.at_ms(section.start_ns),
            }
            for _, section in some.head(5).iterrows()
        )
        text = f"{len(some)} sections got a token that is not larger than that of a section that had already ended"
        findings.append(TOKEN.found(blame, text, len(some), examples))
    return findings


def _stale_write(run: Recorded, evidence: Evidence, case: Case) -> Told:
    stale, after = case.example["stale"], case.example["after"]
    text = (
        f"{stale['client']} wrote {stale['value']}{by_when(run, stale)}, after {after['client']}, a later holder, had "
        f"written {after['value']}{by_when(run, after)}. The resource accepted it"
    )
    if stale.get("token") is not None and after.get("token") is not None:
        text += f" although it carried the token {stale['token']} and the resource had seen {after['token']}."
    else:
        text += ", because there were no tokens to compare."
    return together(run, evidence, case, text)


def _token(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example, sections = case.example, run.sections
    is_earlier = sections["end_ns"] < run.at_ns(example["at_ms"])
    before = where(sections, sections["token"].notna(), is_earlier, key=str(example["key"]))
    text = f"{example['client']} entered at {case.at()} with the token {example['token']}"
    if not len(before):
        return Told(f"{text}, which is not larger than that of an earlier section.")
    largest = before.iloc[int(before["token"].to_numpy(np.int64).argmax())]
    left = at(run, int(largest.end_ns))
    return Told(f"{text}, although {largest.client}, which had left at {left}, had the token {int(largest.token)}.")


STALE: Final = FindingKind(
    "stale-write-accepted", "data", _stale_write, noun="stale write(s) accepted", surveyed="follows"
)
TOKEN: Final = FindingKind("token-not-increasing", "data", _token, noun="token(s) not increasing", surveyed="tokens")
