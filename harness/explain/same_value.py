"""Two clients, or tasks of one, that had asked for a key with the same value: one key let both in, or one of them
deleted the key of the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import listed, printable
from harness.explain.examples import Side
from harness.explain.requests import how_sent
from harness.explain.words import at, lasting
from harness.history.error_replies import is_refusal
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of
from harness.history.key_changes import SETS
from harness.history.ledger import Change, Ledger
from harness.history.node_requests import Request
from harness.history.recorded import Recorded

_ADD_ONCE: Final = ("SADD", "ZADD")
"""What these add is there once, however often."""


def same_value(run: Recorded, earlier: Side, later: Side) -> str | None:
    """`c1@2 and c1@3 asked n1 for k1 with the same value, 90b2, at +11.6 ms and at +22.4 ms, and were let in by it: the
    value does not tell whose the key is.` None if a majority of the nodes did not let both in so, or that is not on
    record."""
    ledger = run.whole_ledger
    if ledger is None:
        return None
    told = {node: words for node in run.nodes for words in list(_told(run, ledger, node, earlier, later))[-1:]}
    if len(told) < quorum(len(run.nodes)):
        return None
    nodes = "" if len(told) == 1 else f" (so on {listed(sorted(told))})"
    return f"{next(iter(told.values()))}{nodes}: the value does not tell whose the key is."


def same_member(run: Recorded, sides: Sequence[Side]) -> str | None:
    """`c1@2 and c1@3 asked n1 for k1 with the same member, 90b2, at +11.6 ms and at +22.4 ms: it has one place for
    both.` The first two of the sections of which this is so on a majority of the nodes; None if there are none."""
    ledger = run.whole_ledger
    if ledger is None:
        return None
    for later in range(1, len(sides)):
        for earlier in range(later):
            pair = sides[earlier], sides[later]
            told = [text for node in run.nodes for text in list(_of_member(run, ledger, node, *pair))[-1:]]
            if len(told) >= quorum(len(run.nodes)):
                return f"{told[0]}: it has one place for both."
    return None


def _of_member(run: Recorded, ledger: Ledger, node: str, earlier: Side, later: Side) -> Iterator[str]:
    first, second = (_asked(ledger, node, side) for side in (earlier, later))
    words = {word for one in first for word in one.arguments} & {word for one in second for word in one.arguments}
    for entry in ledger.entries:
        if entry.node != node or entry.member not in words:
            continue
        added = ledger.change(entry.added)
        if added["did"] not in _ADD_ONCE:
            continue
        times = [_times_of(asked, entry.key, entry.member) for asked in (first, second)]
        if all(times) and all(added["from_client_ns"] <= some[-1] <= entry.until_ns for some in times):
            one, other = (at(run, some[-1]) for some in times)
            yield (
                f"{earlier.client} and {later.client} asked {node} for {printable(entry.key)} with the same member, "
                f"{printable(entry.member)}, at {one} and at {other}"
            )


def _told(run: Recorded, ledger: Ledger, node: str, earlier: Side, later: Side) -> Iterator[str]:
    rows, (first, second) = ledger.rows, (_asked(ledger, node, side) for side in (earlier, later))
    words = [{word for one in asked for word in one.arguments} for asked in (first, second)]
    unowned = run.unowned
    values = (words[0] & words[1]) - unowned.values
    is_set = (rows["node"] == node) & rows["what"].isin(SETS) & rows["value"].isin(values)
    is_set &= ~rows["key"].isin(unowned.counters | unowned.places)  # a count is the value of no client
    for event, key, value, since_ns in rows_of(rows[is_set.to_numpy(bool)], "event", "key", "value", "since_ns"):
        ended = ledger.end_of_event(event)
        until_ns = FOREVER_NS if ended is None else ended["at_ns"]
        met = ([one for one in asked if _may_meet(one, since_ns, until_ns)] for asked in (first, second))
        times = [_times_of(asked, key, value) for asked in met]
        if all(times) and times[1][-1] > since_ns:
            one, other = (at(run, some[-1]) for some in times)
            yield (
                f"{earlier.client} and {later.client} asked {node} for {printable(str(key))} with the same value, "
                f"{printable(str(value))}, at {one} and at {other}, and were let in by it"
            )


def _may_meet(one: Request, since_ns: int, until_ns: int) -> bool:
    """Whether the node may have carried it out when a key was there, or set the key for it."""
    return one.from_client_ns < until_ns and (one.from_node_ns is None or one.from_node_ns > since_ns)


def _times_of(asked: Sequence[Request], key: str, word: str) -> list[int]:
    """When those of these requests were sent that name the key and the word."""
    return [one.from_client_ns for one in asked if key in one.keys and word in one.arguments]


def _asked(ledger: Ledger, node: str, side: Side) -> list[Request]:
    """What it surely asked as it acquired, and the node did not refuse."""
    asked = ledger.sent.between(side.client, node, side.asked_from_ns, side.start_ns)
    own = (one for one in asked if (one.task or process_of(side.client)) == side.client)
    return [one for one in own if one.reply is not None and not is_refusal(one.reply)]


def task_release(run: Recorded, owner: Side, entered: Side) -> str:
    """`c3@1, whose lease had ended 327 ms before, deleted the key of c3@3, which was inside: in its release …. Both
    tasks of c3 had set the same value, 90b2; comparing it does not tell them apart; then c4@3 could enter.`;
    empty if that is not known."""
    ledger, process = run.ledger, process_of(owner.client)
    if ledger is None or process == owner.client:
        return ""
    deleted = _deleted(ledger, owner, entered)
    for change in deleted if len(deleted) >= quorum(len(run.nodes)) else ():
        sent_ns = int(change["from_client_ns"])
        value = printable(str(change["was"]))
        if change["sender"] in (None, owner.client):
            continue
        if ledger.drew_it_too(change):
            why = f"Both tasks of {process} had set the same value, {value}; comparing it does not tell them apart"
        elif ledger.sent.names_value(change) and ledger.calls.key[change["call"]] == owner.key:
            why = f"It named the value that {owner.client} had set, {value}"
        else:
            continue
        return (
            f"{change['sender']}{_late(run, ledger, change['call'], sent_ns)} deleted the key of {owner.client}, which "
            f"was inside: {how_sent(run, change)}. {why}; then {entered.client} could enter."
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
    place = run.places.get((calls.client[call], int(calls.life[call]), int(calls.section[call])))
    if place is None or at_ns <= (ended_ns := int(run.sections["deadline_max_ns"].iloc[place])):
        return ""
    return f", whose lease had ended {lasting(at_ns - ended_ns)} before,"
