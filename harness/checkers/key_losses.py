"""What happened to single keys while their owner held them?

A key that somebody deletes, or sets another value over, while its owner is inside and within its validity is one node
less behind that lock. As long as a majority is left that breaks nothing (`beliefs` looks after that), but a lock that
compares before it deletes, and sets with NX, does no such thing to others. Values that stand for several sections are
found too: whoever compares them proves nothing.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from harness.history.key_owners import Owners, find_owners, rows_of
from harness.history.recorded import Recorded
from harness.verdict import Answer, Blame, Finding


def check(run: Recorded) -> Answer:
    """Figures, where the nodes were watched: `deleted`, `overwritten`: keys that were surely lost so, each on a node,
    between the grant and the release; `shared_values`: values seen on nodes that were shown for several sections."""
    if run.watched is None or run.watched.watch_windows.empty:
        return Answer()
    owners = find_owners(run, run.watched)
    losses = _losses(run, owners)
    figures: dict[str, object] = {how: len(rows) for how, rows in losses.items()}
    figures["shared_values"] = len(owners.shared)
    return Answer((*_single(run, owners, losses), *_shared(run, owners)), figures=figures)


def _losses(run: Recorded, owners: Owners) -> dict[str, pd.DataFrame]:
    """Holdings that surely ended while their owner was inside and within its validity, by how they ended."""
    holdings = owners.holdings[owners.holdings["section"] >= 0]
    own = holdings["section"].to_numpy(np.int64)
    start = run.sections["start_ns"].to_numpy(np.int64)[own]
    until = np.minimum(
        run.sections["end_ns"].to_numpy(np.int64)[own], run.sections["deadline_min_ns"].to_numpy(np.int64)[own]
    )
    inside = (holdings["to_min_ns"].to_numpy(np.int64) >= start) & (holdings["to_max_ns"].to_numpy(np.int64) < until)
    return {how: holdings[inside & (holdings["ended"] == how).to_numpy()] for how in ("deleted", "overwritten")}


def _single(run: Recorded, owners: Owners, losses: dict[str, pd.DataFrame]) -> list[Finding]:
    """Losses on single nodes, which break nothing by themselves."""
    words: dict[str, tuple[str, Blame, str]] = {
        "deleted": (
            "deleted-while-held",
            "undecided",
            "deleted on a node while their owner held them, by somebody else or by a late request of its own",
        ),
        "overwritten": (
            "overwritten-while-held",
            "lock",
            "overwritten on a node by another value while their owner held them",
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
                "at_ms": (to_max_ns - run.timeline.start_ns) / 1e6,
            }
            for node, key, section, to_max_ns in rows_of(rows.head(3), "node", "lock_key", "section", "to_max_ns")
        )
        text = f"{len(rows)} {'key was' if len(rows) == 1 else 'keys were'} {what}"
        findings.append(Finding("key_losses", kind, blame, text, (), len(rows), examples))
    return findings


def _shared(run: Recorded, owners: Owners) -> list[Finding]:
    """Values that are not unique: whoever compares them proves nothing."""
    if not owners.shared:
        return []
    examples: tuple[dict[str, object], ...] = tuple(
        {
            "value": value[:60],
            "sections": len(rows),
            "of": tuple(
                f"{run.sections['client'].iloc[row]} in section {run.sections['section'].iloc[row]}" for row in rows[:2]
            ),
        }
        for value, rows in list(owners.shared.items())[:3]
    )
    count = len(owners.shared)
    text = f"{count} {'value' if count == 1 else 'values'} on the nodes stood for more than one section"
    return [Finding("key_losses", "shared-value", "lock", text, (), count, examples)]
