"""The key of a client that was inside, deleted by another task of its own process, because both had set the same
value."""

from __future__ import annotations

import numpy as np

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import printable
from harness.explain.examples import Side
from harness.explain.requests import how_sent
from harness.explain.words import lasting
from harness.history.groups import places_of
from harness.history.ledger import Change, Ledger
from harness.history.recorded import Recorded


def task_release(run: Recorded, owner: Side, entered: Side) -> str:
    """`c3@1, whose lease had ended 327 ms before, deleted the key of c3@3, which was inside: in its release …. Both
    tasks of c3 had set the same value, 90b2, so that comparing it does not tell them apart; then c4@3 could enter.`;
    empty if that is not known."""
    ledger, process = run.ledger, process_of(owner.client)
    if ledger is None or process == owner.client:
        return ""
    deleted = _deleted(ledger, owner, entered)
    for change in deleted if len(deleted) >= quorum(len(run.nodes)) else ():
        sent_ns = int(change["from_client_ns"])
        if change["sender"] in (None, owner.client) or not ledger.sent.drew_it_too(change):
            continue
        value = printable(str(change["value"]))
        return (
            f"{change['sender']}{_late(run, ledger, change['call'], sent_ns)} deleted the key of {owner.client}, which "
            f"was inside: {how_sent(run, change)}. Both tasks of {process} had set the same value, {value}, so that "
            f"comparing it does not tell them apart; then {entered.client} could enter."
        )
    return ""


def _deleted(ledger: Ledger, owner: Side, entered: Side) -> list[Change]:
    """The deletions, by the owner's process, of the one key that this process had set as the owner was granted it."""
    rows = ledger.rows
    asked = (rows["client"] == process_of(owner.client)) & (rows["from_client_ns"] >= owner.asked_from_ns)
    is_set = asked & (rows["from_client_ns"] <= owner.start_ns) & (rows["what"] == "set")
    events = rows["event"].to_numpy(np.int64)[is_set.to_numpy(bool)].tolist()
    nodes = rows["node"][is_set.to_numpy(bool)]
    ends = [ledger.end_of_event(event) for event in events] if nodes.is_unique else []
    until_ns = min(owner.end_ns, owner.deadline_min_ns, entered.start_ns)
    return [
        change
        for change in ends
        if change is not None and change["what"] == "deleted" and change["request"] >= 0
        if change["client"] == process_of(owner.client)
        if owner.start_ns <= change["from_client_ns"] and change["from_node_ns"] < until_ns
    ]


def _late(run: Recorded, ledger: Ledger, call: int, at_ns: int) -> str:
    """`, whose lease had ended 327 ms before,`; empty if it had not."""
    calls = ledger.calls
    place = places_of(run.sections).get((calls.client[call], int(calls.life[call]), int(calls.section[call])))
    if place is None or at_ns <= (ended_ns := int(run.sections["deadline_max_ns"].iloc[place])):
        return ""
    return f", whose lease had ended {lasting(at_ns - ended_ns)} before,"
