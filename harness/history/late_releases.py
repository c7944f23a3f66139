"""Releases that were sent after they had returned.

A release that was told to have succeeded, and during which its process sent the nodes nothing, sent its request later.
It is the first one after it that took that key from a node, if it has the words of what other releases sent, no other
task sent it, and no other call can have sent it. No other release of the key has begun by then, and of the acquires
under way none can have undone what it had set: a granted one undoes nothing after its last request that set the key,
and a refused one nothing that it cannot have set, because nothing did since it began, or only in the call of another
task.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.history import process_of
from harness.history.calls import Calls
from harness.history.commands import RUN_SCRIPTS
from harness.history.groups import Ints, where, which

if TYPE_CHECKING:
    from harness.history.change_causes import WireRecord

Change = Mapping[Hashable, Any]

_RELEASES: Final = ("release", "leave")
_TAKES: Final = ("deleted", "changed")
_SETS: Final = ("set", "overwritten", "prolonged")


def late_releases(rows: pd.DataFrame, calls: Calls, wire: WireRecord) -> dict[int, int]:
    """By row of a ledger, the release that sent its request later."""
    sent = _sent(wire)
    released = np.flatnonzero((calls.f == "release") & (calls.outcome == "ok")).tolist()
    owing = [of for of in released if not _during(sent.get(process_of(calls.client[of])), calls, of).size]
    if not owing:
        return {}
    took = where(rows, rows["request"] >= 0, what=_TAKES, by="client")
    words = dict(zip(took.index.tolist(), _words(took, wire), strict=True))
    usual = {words[row] for row in where(took, is_in_call=True, f="release").index.tolist()}
    meant = calls.meant_by(took["key"].astype(str).unique().tolist())
    by_key = {
        (process, keys[0]): _in_order(some)
        for (process, name), some in took.groupby(["client", took["key"].astype(str)])
        if len(keys := meant[str(name)]) == 1
    }
    found: dict[int, int] = {}
    for release in owing:
        mine = by_key.get((process_of(calls.client[release]), calls.key[release]), ())
        later = (
            (row, one)
            for row, one in mine
            if one["from_client_ns"] > calls.complete_ns[release] and one["sender"] in (None, calls.client[release])
        )
        for row, request in islice(later, 1):
            if words[row] in usual and _is_owed(request, release, rows, calls):
                found[row] = release
    return found


def _in_order(rows: pd.DataFrame) -> list[tuple[int, Change]]:
    rows = rows.sort_values("from_client_ns", kind="stable")
    return list(zip(rows.index.tolist(), rows.to_dict("records"), strict=True))


def _is_owed(request: Change, release: int, rows: pd.DataFrame, calls: Calls) -> bool:
    """Whether no other call can have sent this request, which took the key of the release."""
    process, key, at_ns = request["client"], calls.key[release], request["from_client_ns"]
    own = np.concatenate(calls.of_process[process])
    between = (calls.invoke_ns[own] > calls.complete_ns[release]) & (calls.invoke_ns[own] <= at_ns)
    if (between & np.isin(calls.f[own], _RELEASES) & np.isin(calls.key[own], ("", key))).any():
        return False
    return all(_did_not(of, request, rows, calls) for of in calls.under_way(process, at_ns, key))


def _did_not(call: int, request: Change, rows: pd.DataFrame, calls: Calls) -> bool:
    """Whether this call has nothing to undo by then, or undid nothing later."""
    if calls.f[call] != "acquire":
        return False
    of_key = where(rows, client=request["client"], key=request["key"])
    asked_ns, at_ns = of_key["from_client_ns"].to_numpy(np.int64), request["from_client_ns"]
    sets = which(of_key, what=_SETS)
    if calls.outcome[call] == "ok":
        return not (sets & (asked_ns >= at_ns) & (asked_ns <= calls.complete_ns[call])).any()
    before = asked_ns[sets & (asked_ns >= calls.invoke_ns[call]) & (asked_ns < at_ns)].tolist()
    others = (set(calls.under_way(request["client"], of, calls.key[call])) - {call} for of in before)
    is_known = request["owner"] >= 0 and rows["cause"].iloc[request["owner"]] == "request"
    return is_known and all(others)


def _sent(wire: WireRecord) -> dict[str, Ints]:
    """By process, when it sent requests that name a key, in order."""
    names = wire.requests
    named = pc.and_(pc.greater(pc.list_value_length(names["keys"]), 0), pc.equal(names["by"], "client"))
    some = names.select(["client", "from_client_ns"]).filter(named).to_pandas().dropna()
    return {
        str(client): np.sort(own.to_numpy(np.int64))
        for client, own in some.groupby("client", observed=True)["from_client_ns"]
    }


def _during(sent: Ints | None, calls: Calls, call: int) -> Ints:
    """Those of these requests that were sent during the call."""
    if sent is None:
        return np.zeros(0, np.int64)
    return sent[np.searchsorted(sent, calls.invoke_ns[call]) : np.searchsorted(sent, calls.complete_ns[call], "right")]


def _words(rows: pd.DataFrame, wire: WireRecord) -> list[tuple[str, str]]:
    """By row, its command, and the script if it is one."""
    arguments = wire.requests["arguments"].take(pa.array(rows["request"].to_numpy(np.int64))).to_pylist()
    commands = rows["command"].tolist()
    return [(of, said[0] if of in RUN_SCRIPTS else "") for of, said in zip(commands, arguments, strict=True)]
