"""A client that was let in because its request raised a count, although it did not set the lock's own key.

A lock may count the clients that share its key: the first one sets the key, and the others only raise the count. A
client that is gone leaves the count raised. Then the next one is let in without the key, which another client sets
while it is inside; or although the key is another client's.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fencepost.quorum import quorum
from fencepost.text import printable
from harness.explain.examples import Side
from harness.explain.kept_permits import each_in_words, kept_by
from harness.explain.requests import client_of, how_sent
from harness.history.commands import RAISE
from harness.history.groups import rows_of
from harness.history.key_changes import ENDINGS, SETS
from harness.history.ledger import Change, Ledger
from harness.history.permits_out import raised_by_gone
from harness.history.recorded import Recorded


def by_count(run: Recorded, earlier: Side, later: Side) -> str | None:
    """`c5 was let in by a count alone: in its acquire it sent EVAL to n1 at +9.0 ms; the node answered 1. That raised
    k1:readers (from 1), and set nothing. The lock's key k1, which c2 set, was not there.` None if a majority of the
    nodes did not let one of them in so, or that is not on record."""
    ledger = run.whole_ledger
    counts = run.unowned.counters | run.unowned.places
    if ledger is None or not counts:
        return None
    for guest, other in ((earlier, later), (later, earlier)):
        told = [text for node in run.nodes for text in _told(run, ledger, node, guest, other, counts)]
        if len(told) >= quorum(len(run.nodes)):
            return told[0]
    return None


def _told(run: Recorded, ledger: Ledger, node: str, guest: Side, other: Side, counts: frozenset[str]) -> Iterator[str]:
    own, others = (_acquired(ledger, node, side) for side in (guest, other))
    if own.empty or not set(own["key"]) <= counts or (own["request"] == own["request"].iloc[-1]).sum() != 1:
        return
    raised = ledger.change(int(own.index[-1]))
    if raised["did"] not in RAISE:
        return
    named = set(ledger.wire.requests["keys"][int(raised["request"])].as_py() or ())
    for key in dict.fromkeys(others["key"].astype(str)):
        taken = _taken(others, key)
        if taken is None or key not in named - counts or not _is_set_by_such(run, ledger, key, guest, other):
            continue
        if (state := _state(ledger, node, key, raised, ledger.change(taken))) is not None:
            yield " ".join(filter(None, [_in_words(run, guest, raised, key, state), _left_by(run, ledger, raised)]))
            return


def _acquired(ledger: Ledger, node: str, side: Side) -> pd.DataFrame:
    """What the side's acquire changed on a node, but for the time to live."""
    rows = ledger.rows
    its = side.made(rows, "acquire") & rows["is_in_call"] & (rows["request"] >= 0) & (rows["node"] == node)
    return rows[(its & rows["what"].isin((*SETS, "changed", "deleted"))).to_numpy(bool)]


def _taken(others: pd.DataFrame, key: str) -> int | None:
    """The row in which the key was set, if the acquire had not deleted it again."""
    own = others[(others["key"] == key).to_numpy(bool)]
    return int(own.index[-1]) if own["what"].iloc[-1] in SETS else None


def _is_set_by_such(run: Recorded, ledger: Ledger, key: str, guest: Side, other: Side) -> bool:
    """Whether an acquire that was granted as the guest's was, to a reader or to a writer, set this key another time."""
    rows, places = ledger.rows, run.places
    shared = run.sections["shared"].tolist() if "shared" in run.sections else [0] * len(run.sections)
    kind = shared[places[guest.client, guest.life, guest.section]]
    is_set = (rows["key"] == key) & (rows["what"] == "set") & (rows["f"] == "acquire") & (rows["outcome"] == "ok")
    found = rows_of(rows[(is_set & rows["is_in_call"]).to_numpy(bool)], "task", "life", "section")
    apart = (other.client, other.life, other.section)
    return any(tuple(of) != apart and tuple(of) in places and shared[places[tuple(of)]] == kind for of in found)


def _state(ledger: Ledger, node: str, key: str, raised: Change, taken: Change) -> str | None:
    """What the key was when the node raised the count; None if that is not known, or proves nothing."""
    rows = ledger.rows
    before = (rows["node"] == node) & (rows["key"] == key) & (rows.index < raised["row"])
    if not before.any():
        return None
    last = ledger.change(int(np.flatnonzero(before.to_numpy(bool))[-1]))
    if raised["row"] < taken["row"]:
        is_gone = last["what"] in ENDINGS and last["what"] != "overwritten"
        return f"was not there, so that {client_of(taken)} could set it" if is_gone else None
    is_others = last["owner"] == taken["owner"] and last["what"] not in ENDINGS
    return f"was that of {client_of(taken)}" if is_others else None


def _in_words(run: Recorded, guest: Side, raised: Change, key: str, state: str) -> str:
    was = "" if raised["was"] is None else f" (from {printable(str(raised['was']))})"
    return (
        f"{guest.client} was let in by a count alone: {how_sent(run, raised)}. That raised "
        f"{printable(str(raised['key']))}{was}, and set nothing. {printable(key)}, which such acquires set at other "
        f"times, {state}."
    )


def _left_by(run: Recorded, ledger: Ledger, raised: Change) -> str:
    """Which calls had left the count raised; empty if that is not known."""
    if not (left := raised_by_gone(run, ledger, raised)):
        return ""
    key = printable(str(raised["key"]))
    return f"What {key} had counted before was left by calls that were over. {each_in_words(kept_by(run, left))}"
