"""A client that was let in by an element of a list, which a request had pushed while another client was inside."""

from __future__ import annotations

from fencepost.text import printable
from harness.explain.causes import Reason
from harness.explain.examples import Side
from harness.explain.requests import changes_where, client_of, how_sent
from harness.explain.wire_requests import WireRequests
from harness.history.commands import MOVE, POP, PUSH
from harness.history.recorded import Recorded


def woken_early(run: Recorded, wire: WireRequests | None, inside: Side, entered: Side) -> Reason | None:
    """`c5 was let in by an element of the list wake:c5, which c7 had pushed while c4 was inside: in its acquire it sent
    LPUSH to n1 at +19.6 ms; the node answered 1.` None if the acquire did not end with a pop that got an element, or
    that is not on record. What is pushed when the client that was inside gives the lock back is in order."""
    if run.ledger is None or wire is None:
        return None
    asked = wire.of_client(entered.client, entered.asked_from_ns, entered.start_ns)
    last = asked[-1] if asked else None
    if last is None or last.command not in (*POP, *MOVE) or last.reply in (None, "null") or not last.keys:
        return None
    rows, key = run.ledger.rows, last.keys[0]
    is_push = (rows["node"] == last.node) & (rows["key"] == key) & rows["did"].isin([*PUSH])
    pushes = changes_where(run.ledger, is_push & (rows["to_node_ns"] <= last.from_node_ns))
    until_ns = min(inside.end_ns, inside.deadline_min_ns)
    if not pushes or not inside.start_ns <= pushes[-1]["from_client_ns"] < until_ns:
        return None
    who, how = client_of(pushes[-1]), how_sent(run, pushes[-1])
    return Reason(
        f"{entered.client} was let in by an element of the list {printable(key)}, which {who} had pushed while "
        f"{inside.client} was inside: {how}.",
        "woken early",
    )
