"""How a granted acquire took the lock, if not in one step of the node.

A client may have asked whether the lock was free, and taken it with a later request: another client came in between. So
the node's own order says if the look was answered before the other client's request came to the node, and that one was
carried out before the request that took the lock whatever was there by then. Or it took nothing: the node said yes, and
nothing that it holds had changed. Or it only read, and what it read was the value that another holder had set. Or it
asked no node at all.

A transaction looks and takes in one step, in effect, as long as the connection watches the key (WATCH). Every EXEC,
DISCARD and UNWATCH on the connection ends that, also another task's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

import pandas as pd

from fencepost.history import process_of
from fencepost.text import printable
from harness.explain.causes import Reason
from harness.explain.examples import Side
from harness.explain.requests import changes_where, client_of, how_sent
from harness.explain.wire_requests import WireRequest, WireRequests
from harness.explain.words import at
from harness.history.commands import LOOK, SET_FIELDS
from harness.history.ledger import Change, Ledger
from harness.history.recorded import Recorded

_TAKES: Final = ("set", "overwritten", "changed")
_ENDS_WATCH: Final = ("EXEC", "DISCARD", "UNWATCH", "RESET")
_IF_FREE: Final = frozenset({"NX", "SETNX", "HSETNX", "MSETNX", "RENAMENX", "FNX"})


def looked_first(run: Recorded, wire: WireRequests | None, inside: Sequence[Side], entered: Side) -> Reason | None:
    """`c10 asked n1 with ZCARD, which answered 2, and put in its own with ZADD at +57.5 ms; in between, at +57.3 ms, n1
    had carried out c8's ZADD. The lock looks and takes in two steps.` None if that is not on record."""
    ledger = run.ledger
    if ledger is None or wire is None:
        return None
    for took in reversed(_taken(ledger, entered)):
        look = _look(wire, entered.client, entered.asked_from_ns, took)
        if look is None or look.from_node_ns is None:
            continue
        for side in inside:
            between = [
                one
                for one in _taken(ledger, side)
                if (one["node"], one["key"]) == (took["node"], took["key"]) and one["event"] < took["event"]
                if one["to_node_ns"] > look.from_node_ns
            ]
            if between:
                node, came = printable(str(took["node"])), between[-1]
                text = (
                    f"{entered.client} asked {node} with {look.label}, which answered {look.reply_label}, and took the "
                    f"lock with {printable(str(took['did']))} at {at(run, took['at_ns'])}; in between, at "
                    f"{at(run, came['at_ns'])}, {node} had carried out {side.client}'s {printable(str(came['did']))}. "
                )
                if ended := _ended_watch(run, wire, took):
                    return Reason(text + ended, "watch ended")
                return Reason(f"{text}The lock looks and takes in two steps.", "looked first")
    return None


def overwriter_looked(run: Recorded, wire: WireRequests | None, over: Change) -> Reason | None:
    """`c3 had asked n1 with GET k1, which answered nil before c2's SET was carried out at +6.3 ms. The lock looks and
    takes in two steps.` Of the request of an acquire that set another value over a key."""
    ledger = run.ledger
    is_single = over["what"] == "overwritten" and over["request"] >= 0 and over["did"] == over["command"]
    if ledger is None or wire is None or not is_single or over["of"] < 0 or over["f"] != "acquire":
        return None
    client, before = client_of(over), ledger.change(int(over["of"]))
    look = _look(wire, str(over["task"] or over["client"]), int(over["invoke_ns"]), over)
    if look is None or look.from_node_ns is None or before["to_node_ns"] <= look.from_node_ns:
        return None
    text = (
        f"{client} had asked {printable(look.node)} with {look.label}, which answered {look.reply_label} before "
        f"{client_of(before)}'s {printable(str(before['did']))} was carried out at {at(run, before['at_ns'])}. "
    )
    return Reason(f"{text}The lock looks and takes in two steps.", "looked first")


def _ended_watch(run: Recorded, wire: WireRequests, took: Change) -> str:
    """`c2@1 had sent WATCH k1 at +7.1 ms, but c2@3's EXEC on the same connection ended that at +7.3 ms.` Empty if the
    key was not watched, or until the transaction was carried out."""
    request = wire.at(int(took["request"]))
    if request is None or request.transaction is None:
        return ""
    before = wire.on_connection(request.connection, 0, request.sent_ns)
    watches = [one for one in before if one.command == "WATCH" and took["key"] in one.keys]
    watches = [one for one in watches if one.sender == request.sender][-1:]
    for watch in watches:
        ends = (one for one in before if one.sent_ns > watch.sent_ns and one.command in _ENDS_WATCH)
        if (end := next(ends, None)) is not None:
            return (
                f"{watch.sender} had sent {watch.label} at {at(run, watch.sent_ns)}, but {end.sender}'s {end.command} "
                f"on the same connection ended that at {at(run, end.sent_ns)}."
            )
    return ""


def read_as_own(run: Recorded, wire: WireRequests | None, entered: Side, inside: Side) -> str | None:
    """`c1@3 was let in by GET k1, to which n1 answered 21fc: c1@1 had set that value. The lock mistook the key of
    another holder for its own.` None if it took anything itself, or that is not on record."""
    ledger = run.whole_ledger
    if ledger is None or (read := _read(ledger, wire, entered, inside.made(ledger.rows, "acquire"))) is None:
        return None
    return (
        f"{entered.client} was let in by {_answered(read.look)}: {inside.client} had set that value. The lock "
        "mistook the key of another holder for its own."
    )


def read_own_old(run: Recorded, wire: WireRequests | None, entered: Side) -> str | None:
    """`c1 was let in by GET k1, to which n1 answered 21fc: c1 itself had set that value before, at +9.5 ms.
    The lock did not set the key anew, nor prolong it.` None if it took anything, or that is not on record."""
    ledger = run.whole_ledger
    if ledger is None:
        return None
    rows = ledger.rows
    is_its = (rows["client"] == process_of(entered.client)) & (rows["to_client_ns"] < entered.asked_from_ns)
    if (read := _read(ledger, wire, entered, is_its & (rows["f"] == "acquire"))) is None:
        return None
    return (
        f"{entered.client} was let in by {_answered(read.look)}: {entered.client} itself had set that value "
        f"before, at {at(run, read.change['at_ns'])}. The lock did not set the key anew, nor prolong it."
    )


class _Read(NamedTuple):
    """An answer with the value that a change had set."""

    look: WireRequest
    change: Change


def _read(ledger: Ledger, wire: WireRequests | None, entered: Side, setters: pd.Series[bool]) -> _Read | None:
    """The last value of these setters that it read, if it took nothing, and did nothing but look after that."""
    if wire is None or _took_any(ledger, entered):
        return None
    asked = wire.of_client(entered.client, entered.asked_from_ns, entered.start_ns)
    # What it only looked at last, after everything that may have let it in otherwise.
    looks = takewhile(lambda one: one.command in LOOK, reversed([one for one in asked if one.keys]))
    rows = ledger.rows
    for look in looks:
        for change in reversed(changes_where(ledger, setters & _takes(rows) & (rows["node"] == look.node))):
            if change["key"] in look.keys and change["value"] and look.reply == json.dumps(change["value"]):
                return _Read(look, change)
    return None


def _answered(look: WireRequest) -> str:
    return f"{look.label}, to which {look.node} answered {look.reply_label}"


def asked_nothing(run: Recorded, wire: WireRequests | None, sides: Sequence[Side]) -> str | None:
    """`c2@3 was granted the lock in a call in which it asked no node for it.` The first of them for which that is so;
    None if there is none, or it is not known."""
    if run.whole_ledger is None or wire is None:
        return None
    for side in sides:
        if not wire.were_sent(side.client, run.nodes, side.asked_from_ns, side.start_ns):
            any_node = printable(run.nodes[0]) if len(run.nodes) == 1 else "any node"
            return f"{side.client} was granted the lock in a call in which it sent no request to {any_node}."
    return None


def took_nothing(run: Recorded, wire: WireRequests | None, sides: Sequence[Side]) -> str | None:
    """`c1 was let in by EVAL, to which n1 answered "slot 1": it changed nothing that n1 holds.` The first of them for
    which that is so; None if there is none, or it is not known."""
    ledger, watched = run.whole_ledger, run.watched
    if ledger is None or wire is None or watched is None:
        return None
    for side in sides:
        span = side.asked_from_ns, side.start_ns
        asked = wire.of_client(side.client, *span)
        if not asked or _took_any(ledger, side) or not all(watched.saw(n, *span) for n in run.nodes):
            continue
        last = asked[-1]
        return (
            f"{side.client} was let in by {last.label}, to which {last.node} answered {last.reply_label}: it changed "
            f"nothing that {last.node} holds."
        )
    return None


def set_over(run: Recorded, earlier: Side, later: Side) -> str | None:
    """`c1 set another value over the key that c1 had set at +1.0 ms: it sent SET to n1 at +2.0 ms; the node answered
    "OK". Which of its tasks did so is not on record.` For two clients, or tasks, of which the second was let in so."""
    ledger = run.ledger
    if ledger is None:
        return None
    rows, (first, second) = ledger.rows, map(process_of, (earlier.client, later.client))
    over = (rows["what"] == "overwritten") & (rows["client"] == second) & (rows["of"] >= 0)
    over &= rows["from_client_ns"].between(later.asked_from_ns, later.start_ns)
    for change in reversed(changes_where(ledger, over)):
        before = ledger.change(int(change["of"]))
        is_its = before["client"] == first and before["from_client_ns"] >= earlier.asked_from_ns
        if is_its and later.key in ledger.calls.meant_by([str(change["key"])])[str(change["key"])]:
            which = "" if change["task"] else " Which of its tasks did so is not on record."
            return (
                f"{client_of(change)} set another value over the key that {client_of(before)} had set at "
                f"{at(run, before['at_ns'])}: {how_sent(run, change)}.{which}"
            )
    return None


def _took_any(ledger: Ledger, side: Side) -> bool:
    """Whether what it may have sent as it acquired took anything on the nodes."""
    rows = ledger.rows
    is_its = (rows["client"] == process_of(side.client)) & (rows["sender"].isna() | (rows["sender"] == side.client))
    is_its &= rows["from_client_ns"].between(side.asked_from_ns, side.start_ns)
    return bool((is_its & _takes(rows)).any())


def _taken(ledger: Ledger, side: Side) -> list[Change]:
    """What requests of the side's acquire changed that were sent as single commands."""
    rows = ledger.rows
    is_its = side.made(rows, "acquire") & rows["is_in_call"] & _takes(rows)
    return changes_where(ledger, is_its & (rows["request"] >= 0) & (rows["did"] == rows["command"]))


def _takes(rows: pd.DataFrame) -> Any:
    """By change, whether it may have taken the lock. What a field holds is not on record, so one that sets it may seem
    to change nothing."""
    return rows["what"].isin(_TAKES) | rows["did"].isin(SET_FIELDS)


def _look(wire: WireRequests, client: str, since_ns: int, took: Change) -> WireRequest | None:
    """The last answer on the same connection, in this call before it, to the question what is in the key; None if the
    request takes the key only if that is free."""
    request = wire.at(int(took["request"]))
    if request is None or not _IF_FREE.isdisjoint(word.upper() for word in request.words):
        return None
    before = wire.of_client(client, since_ns, request.sent_ns)
    looks = (one for one in before if one.connection == request.connection and one.command in LOOK)
    looks = (one for one in looks if (one.command, one.reply) != ("EXISTS", "1"))  # another task's
    return max((one for one in looks if took["key"] in one.keys), key=lambda one: one.sent_ns, default=None)
