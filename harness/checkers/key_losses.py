"""What happened to single keys while their owner held them?

A key that a client deletes or overwrites while its owner is inside and within its validity is one node less behind that
lock. As long as a majority is left the lock is still held (`quorum_backing` checks that), but a lock that compares
before it deletes, and sets with NX, does not do it to others. Values that several sections used are found too:
comparing them proves nothing. But a lease that the lock handed out again while its key was still there is the same
lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from fencepost.history import process_of
from harness.explain.kinds import FindingKind
from harness.figures import KeyFigures, Row
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import columns_of, rows_of
from harness.history.handed_on import HandedOn
from harness.history.key_owners import Owners
from harness.history.recorded import Recorded
from harness.verdict import Answer, Blame, Finding


class Figures(KeyFigures, frozen=True):
    """`deleted`, `overwritten`: keys that were surely lost so, each on one node, between the grant and the release.
    `shared_values`: values seen on nodes that several sections used."""

    deleted: int
    overwritten: int
    shared_values: int

    def rows(self) -> Iterator[Row]:
        counts = {"deleted": self.deleted, "overwritten": self.overwritten}
        lost = ", ".join(f"{how} {number:,}" for how, number in counts.items() if number)
        if lost:
            yield Row("key loss", f"on single nodes, while held: {lost}", order=81)


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched."""
    owners = run.owners
    if owners is None:
        return Answer()
    losses = _losses(run, owners)
    shared = _shared(run, owners)
    figures = Figures(len(losses["deleted"]), len(losses["overwritten"]), len(shared))
    return Answer(figures, (*_single(run, losses), *_shared_found(run, shared)))


def _losses(run: Recorded, owners: Owners) -> dict[str, pd.DataFrame]:
    """Holdings that surely ended while their owner was inside and within its validity, by how they ended. An extension
    may replace its section's value by a new one of its own. What a thread of the client sets beside the calls may be
    an attempt of that thread's."""
    in_order = owners.holdings.sort_values("from_min_ns", kind="stable")
    following = in_order.groupby(["node", "key"], observed=True)["client"].shift(-1)
    replaced = (in_order["ended"] == "overwritten") & (in_order["client"] == following)
    # A lock whose keys have no time to live may keep their expiry in the value, and replaces what has expired.
    replaced |= (in_order["ended"] == "overwritten") & (in_order["expires_ns"] >= FOREVER_NS)
    own_calls = (owners.holdings["section"] >= 0) & ~owners.holdings["is_background"]
    holdings = owners.holdings[own_calls & ~replaced.reindex(owners.holdings.index)]
    own = holdings["section"].to_numpy(np.int64)
    start = run.sections["start_ns"].to_numpy(np.int64)[own]
    until = np.minimum(*columns_of(run.sections, "end_ns", "deadline_min_ns"))[own]
    inside = (holdings["to_min_ns"].to_numpy(np.int64) >= start) & (holdings["to_max_ns"].to_numpy(np.int64) < until)
    return {how: holdings[inside & (holdings["ended"] == how).to_numpy()] for how in ("deleted", "overwritten")}


def _single(run: Recorded, losses: dict[str, pd.DataFrame]) -> list[Finding]:
    """Losses on single nodes, which break nothing by themselves."""
    words: dict[str, tuple[FindingKind, Blame, str]] = {
        "deleted": (
            DELETED,
            "undecided",
            "deleted on a node while held, by another client or by the owner itself",
        ),
        "overwritten": (
            OVERWRITTEN,
            "lock",
            "overwritten on a node by another value while held",
        ),
    }
    findings = []
    for how, (kind, blame, what) in words.items():
        rows = losses[how]
        if rows.empty:
            continue
        examples: tuple[dict[str, object], ...] = tuple(
            {
                "node": node,
                "key": key,
                "client": str(run.sections["client"].iloc[section]),
                "section": int(run.sections["section"].iloc[section]),
                "at_ms": run.at_ms(to_max_ns),
            }
            for node, key, section, to_max_ns in rows_of(rows.head(3), "node", "lock_key", "section", "to_max_ns")
        )
        text = f"{len(rows)} {'key was' if len(rows) == 1 else 'keys were'} {what}"
        at_ms = run.at_ms(rows["to_max_ns"].min())
        findings.append(kind.found(blame, text, len(rows), examples, at_ms))
    return findings


def _shared(run: Recorded, owners: Owners) -> dict[str, list[int]]:
    """The values that are not unique on a key, with the places of the sections that used them there. One of a process
    is enough if it lets its tasks in one after the other."""
    handed_on, again = HandedOn(run, owners), set[int]()
    for held in owners.each:
        if (held.key, held.value) in owners.shared:
            again.update([use.section for use in handed_on.uses(held)][1:])
    found: dict[str, list[int]] = {}
    for (_, value), rows in owners.shared.items():
        if len(set(rows) - again) > 1 and not _take_turns(run, rows):
            found[value] = sorted({*found.get(value, ()), *rows})
    return found


def _take_turns(run: Recorded, rows: list[int]) -> bool:
    """Whether these sections are of one process, and none began while another one lasted."""
    own = run.sections.iloc[rows].sort_values("start_ns")
    began, ended = columns_of(own, "start_ns", "end_ns")
    return len(set(map(process_of, own["client"].astype(str)))) == 1 and bool((began[1:] >= ended[:-1]).all())


def _shared_found(run: Recorded, shared: dict[str, list[int]]) -> list[Finding]:
    """Comparing them proves nothing."""
    if not shared:
        return []
    examples: tuple[dict[str, object], ...] = tuple(
        {
            "value": value[:60],
            "sections": len(rows),
            "at_ms": _shared_at_ms(run, rows),
            "of": tuple(
                f"{run.sections['client'].iloc[row]} in section {run.sections['section'].iloc[row]}" for row in rows[:2]
            ),
        }
        for value, rows in list(shared.items())[:3]
    )
    count = len(shared)
    subject = "1 value on the nodes was" if count == 1 else f"{count} values on the nodes were"
    text = f"{subject} used by more than one section"
    return [SHARED.found("lock", text, count, examples, min(_shared_at_ms(run, rows) for rows in shared.values()))]


def _shared_at_ms(run: Recorded, rows: list[int]) -> float:
    """When the second section used the value."""
    return run.at_ms(run.sections["start_ns"].iloc[rows[1]])


SHARED: Final = FindingKind("shared-value", "none", stands_for="shared value", noun="value(s) used by several sections")
DELETED: Final = FindingKind(
    "deleted-while-held",
    "none",
    comes_of=("deleted", "deleted by itself", "another task's release", "shared value"),
    noun="key(s) deleted while held",
)
OVERWRITTEN: Final = FindingKind(
    "overwritten-while-held", "lease", comes_of=("overwritten", "set again"), noun="key(s) overwritten while held"
)
