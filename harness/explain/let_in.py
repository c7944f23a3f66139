"""What nodes answered two clients that both were let in, whatever keys the lock keeps, and what changed those keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from fencepost.text import listed, printable
from harness.explain.cases import Side
from harness.explain.phrases import at
from harness.explain.requests import client_of, how_sent
from harness.explain.wire_requests import WireRequest, WireRequests
from harness.history.recorded import Recorded

_MOST_CHANGES: Final = 2
_DID: Final = {"deleted": "deleted", "overwritten": "set another value of", "prolonged": "prolonged"}
"""What no client may do to the key of another, the worst first."""


def let_in(run: Recorded, wire: WireRequests, earlier: Side, later: Side) -> str:
    """`n1 let both in: it answered c4's EXEC with [0,1,0] at +2.4 ms, and c3's EXEC with [0,1,0] at +4.1 ms. In
    between, c5 deleted k1:inside: in its release it sent DEL to n1 at +3.0 ms; the node answered 1.` Empty if that is
    not on record."""
    answers = [_last_answers(wire, side) for side in (earlier, later)]
    both = [node for node in run.nodes if all(node in one for one in answers)]
    if not both:
        return ""
    first, second = (one[both[0]] for one in answers)
    who = f"{listed(both)} let both in: {both[0]}" if len(both) > 1 else f"{both[0]} let both in: it"
    text = f"{who} answered {_answer(run, earlier, first)}, and {_answer(run, later, second)}."
    changes = list(_changes(run, earlier, later, both[0]))[:_MOST_CHANGES]
    return f"{text} Then {'; and '.join(changes)}." if changes else text


def _last_answers(wire: WireRequests, side: Side) -> dict[str, WireRequest]:
    """By node, the last request of the client's acquire that was answered."""
    process = side.client.partition("@")[0]
    asked = wire.of_client(process, side.asked_from_ns, side.start_ns)
    return {one.node: one for one in asked}


def _answer(run: Recorded, side: Side, request: WireRequest) -> str:
    assert request.from_node_ns is not None
    return f"{side.client}'s {request.command} with {printable(request.reply_label)} at {at(run, request.from_node_ns)}"


def _changes(run: Recorded, earlier: Side, later: Side, node: str) -> Iterator[str]:
    """What other clients did, after the first was let in and until the second was, to the keys that its acquire had
    changed on the node."""
    if run.ledger is None:
        return
    rows = run.ledger.rows
    here = ((rows["node"] == node) & (rows["cause"] == "request")).to_numpy(bool)
    task, at_ns = rows["task"].to_numpy(object), rows["to_node_ns"].to_numpy(np.int64)
    of_first = here & (task == earlier.client) & (rows["section"] == earlier.section).to_numpy(bool)
    of_first &= (rows["f"] == "acquire").to_numpy(bool)
    if not of_first.any():
        return
    begun_ns = int(at_ns[of_first].max())
    is_key = rows["key"].isin(rows["key"][of_first].unique()).to_numpy(bool)
    meant = here & is_key & (task != earlier.client) & (at_ns > begun_ns) & (at_ns <= later.start_ns)
    meant &= rows["what"].isin(list(_DID)).to_numpy(bool)
    found = sorted(np.flatnonzero(meant).tolist(), key=lambda row: list(_DID).index(rows["what"].iloc[row]))
    for row in found:
        change = run.ledger.change(row)
        if change["request"] >= 0:
            key = printable(str(change["key"]))
            yield f"{client_of(change)} {_DID[change['what']]} {key}: {how_sent(run, change)}"
