"""The entry of a client that was inside, removed from the lock's state by another call, so that the next client got in.

A client keeps its entry while it is inside only in a key from which releases take their own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fencepost.history import process_of
from fencepost.text import printable
from harness.explain.causes import Reason
from harness.explain.examples import Side
from harness.explain.permits import taken_again
from harness.explain.requests import client_of, how_sent, may_be_of
from harness.explain.wire_requests import WireRequest, WireRequests
from harness.explain.words import at
from harness.history.commands import ADD, SET_IN_PLACE
from harness.history.entries import Entry
from harness.history.groups import rows_of
from harness.history.ledger import Change, Ledger
from harness.history.members import takes_the_key
from harness.history.recorded import Recorded

_LOOKS: Final = ("LINDEX",)
_BY_AGE: Final = "ZREMRANGEBYSCORE"
"""Takes out what is too old. A client that puts its own in again after that was late."""
_TAKEN: Final = ("named", "unnamed", "with the key")


def entry_taken(run: Recorded, wire: WireRequests | None, inside: Sequence[Side], entered: Side) -> Reason | None:
    """`c5 was inside when c1, which gave up, took the entry of c5 out of queue: in its acquire it sent EVAL to n1 at
    +9.0 ms; the node answered 0 (LPOP).` The last request that took out the entry of a client that was inside, or
    deleted the key with it; None if no such request is known. Only keys count that the client which `entered` changed
    as it acquired."""
    ledger = run.ledger
    if ledger is None or wire is None:
        return None
    granted = {side: _granted_ns(wire, side) for side in inside}
    taken = [one for one in _taken(ledger, inside, entered) if _is_anothers(one.change, one.side, entered)]
    if (told := _on_its_turn(run, wire, taken, granted)) is not None:
        return told
    found = [one for one in taken if granted[one.side] <= one.change["to_node_ns"]]
    if not found:
        return None
    _, change, side, _ = max(found, key=lambda one: int(one.change["to_node_ns"]))
    key, how = printable(str(change["key"])), f"{how_sent(run, change)} ({printable(str(change['did']))})"
    who = f"{side.client} was inside when {_who(change)}"
    if takes_the_key(change):
        return Reason(f"{who} deleted the key {key}, which held the entry of {side.client}: {how}.", "deleted")
    if change["did"] == SET_IN_PLACE:
        return Reason(f"{who} overwrote the entry of {side.client} in the key {key}: {how}.", "overwritten")
    text = f"{who} removed the entry of {side.client} from the key {key}: {how}."
    section = run.sections.iloc[run.places[side.client, side.life, side.section]]
    if change["did"] == _BY_AGE and (again := taken_again(run, section, str(change["key"]), int(change["at_ns"]))):
        return Reason(f"{text} {again}", "set by an extension")
    return Reason(text, "entry taken")


def _who(change: Change) -> str:
    gave_up = ", which gave up," if (change["f"], change["outcome"]) == ("acquire", "fail") else ""
    return f"{client_of(change)}{gave_up}"


def _on_its_turn(
    run: Recorded, wire: WireRequests, taken: Sequence[_TakenOut], granted: Mapping[Side, int]
) -> Reason | None:
    """The last entry that was taken out when its client had seen it in its turn, but was not yet let in, and that put
    in no more; None if there is none."""
    for entry, change, side, is_kept in sorted(taken, key=lambda one: -int(one.change["to_node_ns"])):
        if change["to_node_ns"] >= granted[side] or change["what"] != "changed" or not is_kept:
            continue
        look = _look(wire, side, entry, int(change["to_node_ns"]))
        if look is None or look.from_node_ns is None or _has_another(run, side, change):
            continue
        key, node = printable(str(change["key"])), printable(str(change["node"]))
        return Reason(
            f"{node} had answered {side.client}'s {printable(look.command)} at {at(run, look.from_node_ns)} with the "
            f"entry of {side.client}; then {_who(change)} removed that entry from the key {key}: "
            f"{how_sent(run, change)} ({printable(str(change['did']))}). {side.client} was let in "
            f"all the same, at {at(run, side.start_ns)}, without an entry.",
            "entry taken",
        )
    return None


def _look(wire: WireRequests, side: Side, entry: Entry, by_ns: int) -> WireRequest | None:
    """The last request of the side's acquire that was answered with this entry by then."""
    asked = wire.of_client(side.client, side.asked_from_ns, side.start_ns)
    seen = (one for one in asked if one.node == entry.node and entry.key in one.keys and one.command in _LOOKS)
    seen = (one for one in seen if one.reply == json.dumps(entry.member) and (one.from_node_ns or by_ns) < by_ns)
    return max(seen, key=lambda one: one.sent_ns, default=None)


def _has_another(run: Recorded, side: Side, change: Change) -> bool:
    """Whether the side's acquire added an entry to the key later."""
    assert run.ledger is not None
    rows = run.ledger.rows
    later = (rows["node"] == change["node"]) & (rows["key"] == change["key"]) & (rows.index > change["row"])
    later &= (rows["task"] == side.client) & (rows["section"] == side.section) & (rows["f"] == "acquire")
    return bool((later & rows["did"].isin(ADD)).any())


class _TakenOut(NamedTuple):
    """What took out the entry of a client, or deleted the key with it. `is_kept`: most entries that releases took out
    of this key were their own, so that is not how they hand the lock over."""

    entry: Entry
    change: Change
    side: Side
    is_kept: bool


def _taken(ledger: Ledger, inside: Sequence[Side], entered: Side) -> Iterator[_TakenOut]:
    """What took out an entry of a client that was inside then, or later, and whose it was."""
    rows = ledger.rows
    is_its = entered.made(rows)
    is_its |= (rows["client"] == process_of(entered.client)) & (rows["from_client_ns"] >= entered.asked_from_ns)
    some = rows[(is_its & (rows["from_client_ns"] <= entered.start_ns)).to_numpy(bool)]
    places = set(rows_of(some, "node", "key"))
    gone = [one for one in ledger.entries if one.how in _TAKEN and (one.node, one.key) in places]
    told = [(one, ledger.change(one.added), ledger.change(one.ended)) for one in gone]
    left = Counter[tuple[Any, ...]]()
    for _, put, end in told:
        if end["f"] == "release":
            left[end["node"], end["key"], _of(put) == _of(end)] += 1
    for entry, put, change in told:
        is_taken = change["what"] == "changed" or takes_the_key(change)
        own, others = (left[change["node"], change["key"], is_own] for is_own in (True, False))
        if is_taken and own:
            of = (side for side in inside if _of(put) == (side.client, side.life, side.section))
            yield from (_TakenOut(entry, change, side, own > others) for side in of)


def _of(change: Change) -> tuple[Any, ...]:
    return change["task"], change["life"], change["section"]


def _is_anothers(change: Change, side: Side, entered: Side) -> bool:
    """Whether it is another call's request, and met a client that was certainly within its lease."""
    arrived_ns, until_ns = int(change["to_node_ns"]), min(side.end_ns, side.deadline_min_ns, entered.start_ns)
    is_own = (change["task"], change["section"]) == (side.client, side.section) or may_be_of(change, side.client)
    return not is_own and arrived_ns < until_ns and change["from_node_ns"] < until_ns


def _granted_ns(wire: WireRequests, side: Side) -> int:
    """When the last answer to the client's acquire left a node: from then on it had the lock."""
    asked = wire.of_client(side.client, side.asked_from_ns, side.start_ns)
    return max((one.from_node_ns for one in asked if one.from_node_ns is not None), default=side.start_ns)
