"""The entry of a client that was inside, which another call took out of the lock's state, so that the next one got in.

A client keeps its entry while it is inside only in a key from which releases take their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.history import process_of
from fencepost.text import listed, printable
from harness.explain.examples import Side
from harness.explain.requests import client_of, how_sent, may_be_of
from harness.explain.wire_requests import WireRequests
from harness.explain.words import was
from harness.history.fault_windows import FOREVER_NS
from harness.history.ledger import Change, Ledger
from harness.history.own_entries import TakenOut, taken_out
from harness.history.recorded import Recorded


class _Taken(NamedTuple):
    """`sides`: one of them lost its entry."""

    change: Change
    sides: tuple[Side, ...]


def entry_taken(run: Recorded, wire: WireRequests | None, inside: Sequence[Side], entered: Side) -> str:
    """`c5 was inside when c1, which gave up, took its entry out of queue: in its acquire it sent EVAL to n1 at +9.0 ms;
    the node answered 0 (LPOP).`; empty if no such request is known. If it is not known whose entry went, all that had
    one were inside. Only keys count that the client which `entered` changed as it acquired."""
    ledger = run.ledger
    if ledger is None or wire is None:
        return ""
    granted = {side: _granted_ns(wire, side) for side in inside}
    found = [
        one
        for one in _all(run, ledger, inside, entered)
        if max(granted[side] for side in one.sides) <= one.change["to_node_ns"]
    ]
    if not found:
        return ""
    change, sides = max(found, key=lambda one: int(one.change["to_node_ns"]))
    names = [side.client for side in sides]
    whose = "its entry" if len(sides) == 1 else "the entry of one of them"
    gave_up = ", which gave up," if (change["f"], change["outcome"]) == ("acquire", "fail") else ""
    return (
        f"{listed(names)} {was(names)} inside when {client_of(change)}{gave_up} took {whose} out of "
        f"{printable(str(change['key']))}: {how_sent(run, change)} ({printable(str(change['did']))})."
    )


def _all(run: Recorded, ledger: Ledger, inside: Sequence[Side], entered: Side) -> list[_Taken]:
    rows = ledger.rows
    is_its = (rows["task"] == entered.client) & (rows["section"] == entered.section)
    is_its |= (rows["client"] == process_of(entered.client)) & (rows["from_client_ns"] >= entered.asked_from_ns)
    places = rows[(is_its & (rows["from_client_ns"] <= entered.start_ns)).to_numpy(bool)][["node", "key"]]
    found = []
    for node, key in dict.fromkeys(places.astype(str).itertuples(index=False, name=None)):
        gone = list(taken_out(run, ledger, node, key, FOREVER_NS))
        if any(_leaves(ledger, one) for one in gone):
            for row, entries in gone:
                change = ledger.change(row)
                owners = [[side for side in inside if _is_of(ledger, entry.call, side)] for entry in entries]
                sides = tuple(dict.fromkeys(side for some in owners for side in some))
                if all(owners) and all(_is_anothers(change, side, entered) for side in sides):
                    found.append(_Taken(change, sides))
    return found


def _leaves(ledger: Ledger, one: TakenOut) -> bool:
    """Whether a release took out what its own section's acquire had put there."""
    change = ledger.change(one.row)
    return change["f"] == "release" and ledger.calls.granted(int(change["call"])) == one.entries[0].call


def _is_of(ledger: Ledger, call: int, side: Side) -> bool:
    calls = ledger.calls
    return (calls.client[call], calls.life[call], calls.section[call]) == (side.client, side.life, side.section)


def _is_anothers(change: Change, side: Side, entered: Side) -> bool:
    """Whether it is another call's request, and met a client that was certainly within its lease."""
    arrived_ns, until_ns = int(change["to_node_ns"]), min(side.end_ns, side.deadline_min_ns, entered.start_ns)
    is_own = (change["task"], change["section"]) == (side.client, side.section) or may_be_of(change, side.client)
    return not is_own and arrived_ns < until_ns and change["from_node_ns"] < until_ns


def _granted_ns(wire: WireRequests, side: Side) -> int:
    """When the last answer to the client's acquire left a node: from then on it had the lock."""
    asked = wire.of_client(process_of(side.client), side.asked_from_ns, side.start_ns)
    return max((one.from_node_ns for one in asked if one.from_node_ns is not None), default=side.start_ns)
