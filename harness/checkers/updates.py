"""What the checkers of a counter and of a register share: figures of updates, lost updates with their blame, and
whether the resource's record can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd

from fencepost.text import count, plural, printable
from harness.checkers.writes import WHOSE, by_blame, by_when, first_ms, moment_of, shown
from harness.explain.examples import Case, ops_of
from harness.explain.kinds import Evidence, FindingKind, Told
from harness.explain.meeting import together
from harness.explain.words import at
from harness.figures import DATA, Cell, CheckerFigures, Part, Row, Tile
from harness.history.groups import Bools, Ints, address, codes_in
from harness.history.overlaps import BLAMES, NO_OVERLAP, blames_between, overlapped_keys
from harness.history.recorded import Recorded
from harness.history.sections import positions_of
from harness.verdict import Answer, Blame, Finding

_FINAL_KEYS: Final = 20
_SHOWN_KEYS: Final = 8


class UpdateFigures(CheckerFigures, frozen=True):
    """`acknowledged` and `accepted` writes. `lost`: acknowledged and lost; `lost_unacknowledged`: lost, but no client
    was told that they were written. `final`: the values at the last read, of 20 keys at most. `complete`: whether the
    resource's record is whole."""

    acknowledged: int
    accepted: int
    lost: int
    lost_unacknowledged: int
    final: dict[str, int]
    complete: bool

    update: ClassVar[str] = "Updates"
    what: ClassVar[str] = "Value"
    hint: ClassVar[str] = ""

    def rows(self) -> Iterator[Row]:
        yield Row("updates", f"{count(self.lost)} lost of {count(self.acknowledged)} acknowledged", order=40)

    def tiles(self) -> Iterator[Tile]:
        note = f"of {count(self.acknowledged)} acknowledged"
        yield Tile("Lost updates", count(self.lost), note, "bad" if self.lost else "", order=30)

    def parts(self) -> Iterator[Part]:
        pairs = [
            (f"{self.update} acknowledged", count(self.acknowledged)),
            ("Writes accepted", count(self.accepted)),
            *self.own_pairs(),
            (f"{self.what} at the last read", self._final()),
            ("Lost updates", count(self.lost)),
        ]
        if self.lost_unacknowledged:
            pairs.append(("Lost, but never acknowledged", count(self.lost_unacknowledged)))
        if not self.complete:
            pairs.append(("Complete", "no: the last read, or a part of the record, is missing"))
        yield Part(DATA, order=30, hint=self.hint, pairs=tuple(pairs))

    def own_pairs(self) -> Sequence[tuple[str, str]]:
        """What else the page's table shows."""
        return ()

    def cells(self) -> Iterator[Cell]:
        yield Cell("lost", count(self.lost), legend="lost: updates", order=30)

    def _final(self) -> str:
        shown = [f"{printable(key)} {count(value)}" for key, value in list(self.final.items())[:_SHOWN_KEYS]]
        more = len(self.final) - _SHOWN_KEYS
        return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def answered(
    run: Recorded,
    figures: type[UpdateFigures],
    losers: Ints,
    winners: Ints,
    impossible: Sequence[Finding],
    **more: object,
) -> Answer:
    """`losers`: rows of the lost writes; `winners`: of the writes that they were lost by. `impossible`: what the
    resource cannot have had; `more`: further figures."""
    acknowledged, told, missing = told_writes(run)
    counts = told[losers]
    findings = [
        *lost_updates(run, losers[counts], winners[counts], told, acknowledged),
        *record_is_wrong(run, missing),
        *impossible,
    ]
    total = int(counts.sum())
    found = figures(
        acknowledged=acknowledged,
        accepted=len(run.writes),
        lost=total,
        lost_unacknowledged=len(losers) - total,
        final=dict(sorted((run.final_values or {}).items())[:_FINAL_KEYS]),
        complete=run.final_values is not None,
        **more,
    )
    return Answer(found, tuple(findings), unknown_losses(run, total > 0))


def told_writes(run: Recorded) -> tuple[int, Bools, pd.Index]:
    """How many writes clients were told of; of each accepted write, whether one was; and the rows in `run.ops` of those
    that were not accepted."""
    acknowledged = _acknowledged(run)
    told, missing = _matched(acknowledged, run.writes)
    return len(acknowledged), told, acknowledged.index[missing]


def _acknowledged(run: Recorded) -> pd.DataFrame:
    """The writes that clients were told of: client, section and value, with the index that they have in `run.ops`."""
    asked = ((run.ops["f"] == "write") & (run.ops["outcome"] == "ok")).to_numpy(np.bool_)
    ops: pd.DataFrame = run.ops[["client", "section", "value"]]
    return ops if asked.all() else ops[asked]


def unknown_losses(run: Recorded, found: bool) -> tuple[str, ...]:
    """Why the run cannot be called valid, if its record is incomplete and no lost update was `found`."""
    if run.final_values is not None or found:
        return ()
    return ("the resource's record is incomplete: lost updates cannot be ruled out",)


def _matched(acknowledged: pd.DataFrame, writes: pd.DataFrame) -> tuple[Bools, Bools]:
    """Which accepted writes were acknowledged, and which acknowledged writes were not accepted."""
    tables = (acknowledged, writes)
    if not all(map(len, tables)):
        return np.zeros(len(writes), np.bool_), np.ones(len(acknowledged), np.bool_)
    names, more = (t["client"].astype("category").cat.categories for t in tables)
    names = names.union(more)
    clients = [codes_in(names, t["client"]) for t in tables]
    numbers, values = ([t[name].to_numpy(np.int64) for t in tables] for name in ("section", "value"))
    least = min(int(value.min()) for value in values)
    ours, theirs = address(clients, numbers, [value - least for value in values])
    return np.isin(theirs, ours), ~np.isin(ours, theirs)


def lost_updates(run: Recorded, losers: Ints, winners: Ints, told: Bools, acknowledged: int) -> list[Finding]:
    """`losers`: rows of the writes that were acknowledged and lost; `winners`: of the writes that overwrote them.
    `told`: by row, whether the write was acknowledged. `acknowledged`: how many writes were, of all clients.

    A write that was never acknowledged may arrive at any time after its client has left. If it then overwrites one of a
    later section, the client is to blame, which left without knowing what became of its write.
    """
    if not len(losers):
        return []
    table = run.writes
    position = positions_of(table.iloc[np.concatenate([losers, winners])], run.sections)
    loser_at, winner_at = position[: len(losers)], position[len(losers) :]
    whose = blames_between(run.sections, loser_at, winner_at).astype(np.int64)
    apart = whose == NO_OVERLAP
    straggled = apart & ~told[winners] & (winner_at >= 0) & (winner_at < loser_at)  # sections are ordered by start
    whose[straggled] = BLAMES.index("client")
    apart &= ~straggled
    if apart.any():
        all_told = run.final_values is not None and run.timeline.end_ns is not None
        excused = table["key"].iloc[losers].isin(overlapped_keys(run.sections)).to_numpy(np.bool_) | (not all_told)
        whose[apart] = np.where(excused[apart], BLAMES.index("undecided"), len(BLAMES))
    findings = []
    fencing = "without fencing" if run.config.fencing == "none" else f"despite --fencing {run.config.fencing}"
    for blame, which in by_blame(whose, "harness"):
        times = len(which)
        findings.append(
            LOST_UPDATE.found(
                blame=blame,
                text=f"{times:,} of {plural(acknowledged, 'acknowledged update')} {'was' if times == 1 else 'were'} "
                f"lost {fencing}, {_whose(blame, int(straggled[which].sum()), times)}",
                count=times,
                examples=tuple(
                    {
                        "key": str(table["key"].iloc[row]),
                        "lost": shown(table, row),
                        "by": shown(table, by_row),
                        **moment_of(run, by_row),
                    }
                    for row, by_row in zip(losers[which[:5]].tolist(), winners[which[:5]].tolist(), strict=True)
                ),
                at_ms=first_ms(run, winners[which]),
            )
        )
    return findings


def _whose(blame: Blame, straggled: int, times: int) -> str:
    """`straggled`: how many of them were lost by a write that arrived after its client had left."""
    if straggled == times:
        late = "a write that arrived after its" if times == 1 else "writes that arrived after their"
        return f"by {late} client had left"
    more = f", or by a write that arrived after its client had left ({straggled})" if straggled else ""
    return f"{WHOSE[blame]}{more}"


def impossible(run: Recorded, rows: Ints, text: str) -> list[Finding]:
    """Writes, by their rows, whose values the resource cannot have had; `text`: {count} of them. Nothing if there are
    none."""
    if not len(rows):
        return []
    examples = tuple(
        {"key": str(run.writes["key"].iloc[row]), "write": shown(run.writes, row), **moment_of(run, row)}
        for row in rows[:5].tolist()
    )
    return [IMPOSSIBLE.found("resource", text, len(rows), examples, first_ms(run, rows))]


def record_is_wrong(run: Recorded, missing: pd.Index) -> list[Finding]:
    """What the resource's record cannot explain: writes that clients were told of and that are `missing`, and a last
    read that differs from the last write. Nothing if there was no last read: then the record is known to be
    incomplete."""
    if run.final_values is None:
        return []
    return _missing(run, missing) + _final_differs(run, run.writes.iloc[run.writes_by_key.last()])


def _missing(run: Recorded, missing: pd.Index) -> list[Finding]:
    if not len(missing):
        return []
    ops = run.ops.loc[missing]
    examples = tuple(
        {
            "client": str(op.client),
            "life": int(op.life),
            "section": int(op.section),
            "key": str(op.key),
            "value": int(op.value),
            "at_ms": run.at_ms(op.complete_ns),
        }
        for _, op in ops.head(5).iterrows()
    )
    text = f"{len(ops)} acknowledged {'write is' if len(ops) == 1 else 'writes are'} missing from the resource's record"
    return [UNRECORDED.found("resource", text, len(ops), examples)]


def _final_differs(run: Recorded, last: pd.DataFrame) -> list[Finding]:
    """`last`: the last accepted write of each key."""
    left = dict(zip(last["key"].astype(str), last["value"].astype(int), strict=True))
    final = run.final_values or {}
    wrong = [k for k in sorted(final.keys() | left.keys()) if final.get(k, 0) != left.get(k, 0)]
    if not wrong:
        return []
    examples = tuple({"key": k, "read": final.get(k, 0), "last_write": left.get(k, 0)} for k in wrong[:5])
    text = f"the last read of {len(wrong)} {'key' if len(wrong) == 1 else 'keys'} differs from the last accepted write"
    return [FINAL_VALUE.found("resource", text, len(wrong), examples)]


def _lost_update(run: Recorded, evidence: Evidence, case: Case) -> Told:
    lost, by = case.example["lost"], case.example["by"]
    text = f"{lost['client']} wrote {lost['value']}{by_when(run, lost)}, which was acknowledged; "
    text += f"{by['client']} overwrote it with {by['value']}{by_when(run, by)}"
    reads = [_read(run, write) for write in (lost, by)]
    if all(value is not None for value, _ in reads):
        (first, _), (second, when) = reads
        text += (
            f"; both had read {first}"
            if first == second
            else f", after it had read {second}{when}, without {lost['client']}'s write"
        )
    text += ". One update is lost."
    if case.finding.blame == "harness":
        return Told(f"{text} No two sections of the key overlapped, so the harness or its resource is wrong.")
    return together(run, evidence, case, text)


def _read(run: Recorded, write: Mapping[str, Any]) -> tuple[int | None, str]:
    """What a section had read before it wrote, and when."""
    ops = ops_of(run, str(write["client"]), int(write["section"]))
    ops = ops[(ops["f"] == "read") & (ops["outcome"] == "ok")]
    if not len(ops) or ops["value"].isna().iloc[-1]:
        return None, ""
    return int(ops["value"].iloc[-1]), f" at {at(run, int(ops['complete_ns'].iloc[-1]))}"


LOST_UPDATE: Final = FindingKind("lost-update", "data", _lost_update)
UNRECORDED: Final = FindingKind(
    "unrecorded-write", "record", noun="acknowledged write(s) missing from the record", surveyed="follows"
)
FINAL_VALUE: Final = FindingKind("wrong-final-value", "record", noun="key(s) with a wrong last value")
IMPOSSIBLE: Final = FindingKind("impossible-value", "record")
