"""Keys that a client had set on the nodes while it waited for its turn, and that expired before it was let in."""

from __future__ import annotations

from fencepost.quorum import quorum
from fencepost.text import printable
from harness.explain.examples import Side
from harness.explain.requests import changes_where
from harness.explain.words import at
from harness.history.recorded import Recorded


def expired_waiting(run: Recorded, side: Side) -> str:
    """`What c9 had set in this acquire, k1/a3f0 on n1, had expired by +2,615.1 ms.`; empty unless that was so on a
    majority of the nodes before the client was let in, and nothing else was left that the acquire had set."""
    ledger = run.ledger
    if ledger is None:
        return ""
    rows = ledger.rows
    own = side.made(rows, "acquire") & (rows["what"] == "set") & rows["is_in_call"] & (rows["at_ns"] <= side.start_ns)
    ends = [ledger.end_of_event(change["event"]) for change in changes_where(ledger, own)]
    gone = [one for one in ends if one is not None and one["what"] == "expired" and one["at_ns"] < side.start_ns]
    nodes = {str(one["node"]) for one in gone}
    if not gone or len(gone) < len(ends) or len(nodes) < quorum(len(run.nodes)):
        return ""
    last = max(gone, key=lambda one: int(one["at_ns"]))
    return (
        f"What {printable(side.client)} had set in this acquire, {printable(str(last['key']))} on {last['node']}, had "
        f"expired by {at(run, int(last['at_ns']))}."
    )
