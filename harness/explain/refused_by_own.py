"""Requests that a node refused because the client's own key was still there, from an earlier round of its acquire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fencepost.history import process_of
from fencepost.text import listed, plural, printable
from harness.explain.words import at
from harness.history.error_replies import REFUSALS
from harness.history.fault_windows import FOREVER_NS
from harness.history.key_changes import SETS
from harness.history.ledger import Change
from harness.history.node_requests import Request
from harness.history.recorded import Recorded

LEAST: Final = 3


def refused_by_own(run: Recorded, clients: Sequence[str], since_ns: int, until_ns: int) -> str | None:
    """`n1 and n2 refused requests 12 times because the client's own key was there: c1 had set k1 on n1 at +1.0 ms, and
    asked for it again at +3.0 ms.` None if that happened less than `LEAST` times."""
    processes = set(map(process_of, clients))
    found = list(_found(run, processes, since_ns, until_ns))
    if len(found) < LEAST:
        return None
    nodes = listed(sorted({str(change["node"]) for change, _ in found}))
    change, again = found[0]
    client, key, node = (printable(str(change[name])) for name in ("client", "key", "node"))
    return (
        f"{nodes} refused {plural(len(found), 'request')} because the client's own key was still there: {client} had "
        f"set {key} on {node} at {at(run, change['at_ns'])}, and asked for it again at {at(run, again.from_client_ns)}"
    )


def _found(run: Recorded, clients: set[str], since_ns: int, until_ns: int) -> Iterator[tuple[Change, Request]]:
    """What an acquire had set, or a call that is not known, and a later request that named its value and was refused
    while it was there."""
    ledger = run.whole_ledger
    if ledger is None:
        return
    rows = ledger.rows
    is_set = rows["what"].isin(SETS) & rows["client"].isin(clients)
    is_set &= (rows["f"] == "acquire") | rows["f"].isna()
    is_set &= rows["value"].notna() & rows["at_ns"].between(since_ns, until_ns)
    for row in np.flatnonzero(is_set.to_numpy(bool)).tolist():
        change = ledger.change(row)
        end = ledger.end_of_event(change["event"])
        gone_ns = FOREVER_NS if end is None else end["since_ns"]
        for one in ledger.sent.between(str(change["client"]), str(change["node"]), int(change["at_ns"]), until_ns):
            is_again = change["value"] in one.arguments and change["key"] in one.keys
            if is_again and one.reply in REFUSALS and one.from_client_ns < gone_ns:
                yield change, one
