"""The entry of a client that was inside, removed from the lock's state by another call, so that the next client got in.

A client keeps its entry while it is inside only in a key from which releases take their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from fencepost.history import process_of
from fencepost.text import printable
from harness.explain.causes import Cause
from harness.explain.examples import Side
from harness.explain.requests import client_of, how_sent, may_be_of
from harness.explain.wire_requests import WireRequests
from harness.history.groups import rows_of
from harness.history.ledger import Change, Ledger
from harness.history.members import takes_the_key
from harness.history.recorded import Recorded

_TAKEN: Final = ("named", "unnamed", "with the key")


class Taken(NamedTuple):
    """`c5 was inside when c1, which gave up, took the entry of c5 out of queue: in its acquire it sent EVAL to n1 at
    +9.0 ms; the node answered 0 (LPOP).`"""

    text: str
    cause: Cause


def entry_taken(run: Recorded, wire: WireRequests | None, inside: Sequence[Side], entered: Side) -> Taken | None:
    """The last request that took out the entry of a client that was inside, or deleted the key with it; None if no such
    request is known. Only keys count that the client which `entered` changed as it acquired."""
    ledger = run.ledger
    if ledger is None or wire is None:
        return None
    granted = {side: _granted_ns(wire, side) for side in inside}
    found = [
        (change, side)
        for change, side in _taken(ledger, inside, entered)
        if granted[side] <= change["to_node_ns"] and _is_anothers(change, side, entered)
    ]
    if not found:
        return None
    change, side = max(found, key=lambda one: int(one[0]["to_node_ns"]))
    gave_up = ", which gave up," if (change["f"], change["outcome"]) == ("acquire", "fail") else ""
    key, how = printable(str(change["key"])), f"{how_sent(run, change)} ({printable(str(change['did']))})"
    who = f"{side.client} was inside when {client_of(change)}{gave_up}"
    if takes_the_key(change):
        return Taken(f"{who} deleted {key}, which held the entry of {side.client}: {how}.", "deleted")
    return Taken(f"{who} took the entry of {side.client} out of {key}: {how}.", "entry taken")


def _taken(ledger: Ledger, inside: Sequence[Side], entered: Side) -> Iterator[tuple[Change, Side]]:
    """What took out an entry of a client that was inside, and whose it was."""
    rows = ledger.rows
    is_its = entered.made(rows)
    is_its |= (rows["client"] == process_of(entered.client)) & (rows["from_client_ns"] >= entered.asked_from_ns)
    some = rows[(is_its & (rows["from_client_ns"] <= entered.start_ns)).to_numpy(bool)]
    places = set(rows_of(some, "node", "key"))
    gone = [one for one in ledger.entries if one.how in _TAKEN and (one.node, one.key) in places]
    told = [(ledger.change(one.added), ledger.change(one.ended)) for one in gone]
    left = {(end["node"], end["key"]) for put, end in told if end["f"] == "release" and _of(put) == _of(end)}
    for put, change in told:
        is_taken = change["what"] == "changed" or takes_the_key(change)
        if is_taken and (change["node"], change["key"]) in left:
            yield from ((change, side) for side in inside if _of(put) == (side.client, side.life, side.section))


def _of(change: Change) -> tuple[Any, ...]:
    return change["task"], change["life"], change["section"]


def _is_anothers(change: Change, side: Side, entered: Side) -> bool:
    """Whether it is another call's request, and met a client that was certainly within its lease."""
    arrived_ns, until_ns = int(change["to_node_ns"]), min(side.end_ns, side.deadline_min_ns, entered.start_ns)
    is_own = (change["task"], change["section"]) == (side.client, side.section) or may_be_of(change, side.client)
    return not is_own and arrived_ns < until_ns and change["from_node_ns"] < until_ns


def _granted_ns(wire: WireRequests, side: Side) -> int:
    """When the last answer to the client's acquire left a node: from then on it had the lock."""
    asked = wire.of_client(process_of(side.client), side.asked_from_ns, side.start_ns)
    return max((one.from_node_ns for one in asked if one.from_node_ns is not None), default=side.start_ns)
