"""What requests took from a key that never expires and no request gave back: a token of a list, a count of a semaphore.

What granted acquires do to such a key, and what releases do, are opposites: a pop and a push, INCR and DECR. A client
gives back what it took last, or deletes the key; one that purges what several left gives back several at once. A SET
begins anew: what was taken before may be back. Where a key has
a time to live, or anything else changes it, as what purges the members of clients that are gone does, nothing is
known, unless it holds tokens: members that clients put back by the name by which they took them. A token is lost when
no key of the lock holds it any more. Nothing is lost where no client was refused a lease later, or still waited: a lock
may take back what is left of a client that is gone when it runs out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from harness.history.commands import COUNT, MOVE, POP
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of, where

if TYPE_CHECKING:
    from harness.history.entries import Entry
    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded

_GONE: Final = ("evicted", "lost")
_TAKES: Final = (*COUNT, *POP, *MOVE, "SPOP", "LMPOP", "BLMPOP")
"""What these leave adds up. What another command has set, a later client may replace."""
_FILLS: Final = "SET"
_BY_NUMBER: Final = ("INCRBY", "DECRBY")
_TAKEN_TIMES: Final = 2
"""How often clients take each token, at the least, on average."""
NEARLY_ALL: Final = 0.9
"""The witness may miss some."""


def never_given_back(run: Recorded, ledger: Ledger, by_ns: int) -> Iterator[Change]:
    """The requests that took something for a call that was not granted, or for a section, and that was over by then;
    each as one change that it made, in order."""
    places, left_ns = run.places, run.sections["end_ns"].tolist()
    refused = where(run.ops, run.ops["outcome"] != "ok", f="acquire")
    missed_ns = refused.groupby(refused["key"].astype(str))["complete_ns"].max().to_dict()
    lease_ns = round(run.kept_ms * 1e6)
    taken = [row for _, own in ledger.rows.groupby("key", observed=True) for row in _taken(run, ledger, own)]
    meant = ledger.calls.meant_by(ledger.rows["key"].astype(str).unique())
    for change in map(ledger.change, sorted(taken)):
        place = places.get((change["task"], change["life"], change["section"]))
        is_granted = place is not None and change["outcome"] == "ok"
        over_ns = left_ns[place] if is_granted and place is not None else max(change["at_ns"], change["complete_ns"])
        # `k1` is no part of what another lock calls `k11`.
        of = max(meant[str(change["key"])], key=len, default="")
        is_missed = missed_ns.get(of, 0) >= over_ns + lease_ns
        if over_ns <= by_ns and is_missed:
            yield change


def _taken(run: Recorded, ledger: Ledger, own: pd.DataFrame) -> list[int]:
    """What was taken from one key and is still missing. Nothing of a key under a name of the library's unless
    nearly every grant took of it and hardly a refused attempt did: it may count anything else."""
    in_calls = where(own, is_in_call=True)
    if (pair := opposites(own)) is None:
        return []
    take, give = pair
    has_expiry = (own["what"] == "expired").any() or (own["had_until_ns"] < FOREVER_NS).any()
    if has_expiry:
        return []
    if (lost := _lost_tokens(ledger, str(own["key"].iloc[0]), take)) is not None:
        return lost
    if not set(own["did"].dropna()) <= {take, give, _FILLS}:
        return []
    if str(own["key"].iloc[0]) not in run.ops["key"].unique() and not _counts_grants(ledger, in_calls, take, give):
        return []
    return [row for _, of_node in own.groupby("node", observed=True) for row in _left(ledger, of_node, take, give)]


def opposites(rows: pd.DataFrame) -> tuple[str, str] | None:
    """The command by which granted acquires take something from a key, and that by which releases give it back; None
    if they do not."""
    granted = where(rows, is_in_call=True, outcome="ok")
    did = {f: where(granted, f=f)["did"].dropna() for f in ("acquire", "release")}
    if any(of_calls.empty for of_calls in did.values()):
        return None
    take, give = (str(of_calls.mode().iloc[0]) for of_calls in did.values())
    return (take, give) if take != give and take in _TAKES else None


def _lost_tokens(ledger: Ledger, key: str, take: str) -> list[int] | None:
    """The changes that took tokens out of the key which no key of this lock on the node held later; not before the node
    had lost anything, or a new token came. None if the key holds no tokens: two were called the same, or most of what
    was taken never came back."""
    rows, entries = ledger.rows, ledger.entries
    meant = ledger.calls.meant_by(entry.key for entry in entries)
    of = [[], meant.get(key)]  # a key that names none of the locks may be of any
    own = sorted((one for one in entries if meant[one.key] in of), key=lambda entry: entry.added)
    did, gone = rows["did"].tolist(), np.flatnonzero(rows["what"].isin(_GONE).to_numpy(bool)).tolist()
    begun = {str(rows["node"].iloc[row]): row for row in gone}
    last: dict[tuple[str, str, str], Entry] = {}
    held: dict[tuple[str, str], int] = {}
    for entry in own:
        name = entry.node, entry.key, entry.member
        if entry.key == key and (before := last.get(name)) is None:
            begun[entry.node] = max(begun.get(entry.node, -1), entry.added)
        elif entry.key == key and before is not None and before.until_ns > rows["at_ns"].iloc[entry.added]:
            return None
        last[name] = entry
        held[entry.node, entry.member] = entry.added
    taken = [one for one in own if (one.key, one.how) == (key, "unnamed") and did[one.ended] == take]
    if not taken or len(taken) < _TAKEN_TIMES * len({entry.member for entry in taken}):
        return None
    lost = (entry for entry in taken if held[entry.node, entry.member] < entry.ended)
    return [entry.ended for entry in lost if entry.ended > begun[entry.node]]


def _counts_grants(ledger: Ledger, in_calls: pd.DataFrame, take: str, give: str) -> bool:
    """Whether granted acquires took something from the key, and refused ones did not, or gave it back at once."""
    calls = ledger.calls
    acquiring = where(in_calls, f="acquire")
    times = (acquiring["did"] == take).astype(int) - (acquiring["did"] == give)
    kept = times.groupby(acquiring["call"]).sum()
    took = kept[kept > 0].index.to_numpy()
    keys = {str(calls.key[call]) for call in took.tolist()} - {""}  # of a client that was killed it is not known
    if len(keys) != 1:
        return False
    acquires = np.flatnonzero((calls.f == "acquire") & (calls.key == keys.pop()))
    share = {
        outcome: np.isin(every, took).mean()
        for outcome in ("ok", "fail")
        if len(every := acquires[calls.outcome[acquires] == outcome])
    }
    return bool(share.get("ok", 0) >= NEARLY_ALL and 1 - share.get("fail", 0) >= NEARLY_ALL)


def _left(ledger: Ledger, rows: pd.DataFrame, take: str, give: str) -> list[int]:
    """The changes of one key that took something which no later change gave back."""
    of_request = (rows["request"].to_numpy() >= 0) & (rows["request"] == rows["request"].shift()).to_numpy()
    once, taken = rows[~of_request], list[tuple[int, str | None]]()
    changes = zip(rows_of(once, "what", "did", "client"), ledger.arguments(once), strict=True)
    for row, ((what, did, client), words) in zip(once.index.tolist(), changes, strict=True):
        if what in _GONE or did == _FILLS or (what == "deleted" and did == give):
            taken.clear()
        elif did == take:
            taken.append((row, client))
        elif did == give and taken:
            # Another client may give back for one that is gone.
            for _ in range(_number(did, words, len(taken))):
                own = [place for place, (_, who) in enumerate(taken) if who == client]
                taken.pop(own[-1] if own else -1)
    return [row for row, _ in taken]


def _number(did: str, words: list[str] | None, most: int) -> int:
    """How many a request gave back, of `most`; all of them if it does not tell."""
    if did not in _BY_NUMBER:
        return 1
    told = words[1].lstrip("-") if words and len(words) > 1 else ""
    return min(int(told), most) if told.isdecimal() else most
