"""What was taken from a key that never expires, and never given back: a token of a list, a count of a semaphore.

What granted acquires do to such a key, and what releases do, are opposites: a pop and a push, INCR and DECR. A client
gives back what it took last, or deletes the key. Where a key has a time to live, or anything else changes it, as what
purges the members of clients that are gone does, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pandas as pd

from harness.history.fault_windows import FOREVER_NS
from harness.history.key_owners import places_of, rows_of

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded

_GONE: Final = ("evicted", "lost")
_TAKES: Final = (
    *("INCR", "INCRBY", "DECR", "DECRBY", "SPOP", "ZPOPMIN", "ZPOPMAX", "BZPOPMIN", "BZPOPMAX", "LPOP", "RPOP"),
    *("BLPOP", "BRPOP", "LMPOP", "BLMPOP", "LMOVE", "BLMOVE", "RPOPLPUSH", "BRPOPLPUSH"),
)
"""What these leave adds up. What another command has set, a later client may replace."""


def never_given_back(run: Recorded, ledger: Ledger, by_ns: int) -> Iterator[Change]:
    """The requests that took something for a call that was not granted, or for a section, and that was over by then;
    each as one change that it made, in order."""
    rows, places = ledger.rows, places_of(run.sections)
    left_ns = run.sections["end_ns"].tolist()
    own = rows[rows["key"].isin([str(key) for key in run.ops["key"].unique()]).to_numpy(bool)]
    granted = own[own["is_in_call"] & (own["outcome"] == "ok")]
    did = {f: granted["did"][(granted["f"] == f).to_numpy(bool)].dropna() for f in ("acquire", "release")}
    if any(of_calls.empty for of_calls in did.values()):
        return
    take, give = (str(of_calls.mode().iloc[0]) for of_calls in did.values())
    has_expiry = (own["what"] == "expired").any() or (own["had_until_ns"] < FOREVER_NS).any()
    if take == give or take not in _TAKES or has_expiry or not set(own["did"].dropna()) <= {take, give}:
        return
    taken = [row for _, of_key in own.groupby(["node", "key"], observed=True) for row in _left(of_key, take, give)]
    for change in map(ledger.change, sorted(taken)):
        place = places.get((change["task"], change["life"], change["section"]))
        is_granted = place is not None and change["outcome"] == "ok"
        over_ns = left_ns[place] if is_granted and place is not None else max(change["at_ns"], change["complete_ns"])
        if over_ns <= by_ns:
            yield change


def _left(rows: pd.DataFrame, take: str, give: str) -> list[int]:
    """The changes of one key that took something which no later change gave back."""
    of_request = (rows["request"].to_numpy() >= 0) & (rows["request"] == rows["request"].shift()).to_numpy()
    once, taken = rows[~of_request], list[tuple[int, str | None]]()
    for row, (what, did, client) in zip(once.index.tolist(), rows_of(once, "what", "did", "client"), strict=True):
        if what in _GONE or (what == "deleted" and did == give):
            taken.clear()
        elif did == take:
            taken.append((row, client))
        elif did == give and taken:
            # Another client may give back for one that is gone.
            own = [place for place, (_, who) in enumerate(taken) if who == client]
            taken.pop(own[-1] if own else -1)
    return [row for row, _ in taken]
