"""What each node replied to two clients, and how it could grant the lock to both.

A node that granted the lock to both lost the first client's key before the second grant. It lost the key before *any*
other grant, so the search ends with the next recorded grant. In that time the key was deleted, or the node was down and
came back without it, or its TTL had passed; otherwise the record does not show why the key was gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from fencepost.history import FaultEvent
from harness.explain.causes import Cause, of_loss
from harness.explain.evidence import Evidence
from harness.explain.examples import Side
from harness.explain.expiries import GivenTtl, given_ttl, lived_ms, too_short, was_over_at_once
from harness.explain.node_replies import NodeReply, replies
from harness.explain.requests import changes_where, may_be_of
from harness.explain.witnessed import NodeEvent
from harness.history.fault_windows import FOREVER_NS, Window, windows
from harness.history.held_keys import CLOCK_SLACK_NS
from harness.history.ledger import Change
from harness.history.recorded import Recorded

How = Literal["deleted", "went down", "expired", "overwritten", "unknown", "short TTL", "nested release"]


@dataclass(frozen=True, slots=True)
class Loss:
    """How a node lost a key that it had `granted`. It was gone at `until_ns`. `by`: the observed deletion or expiry;
    `change`: the same in the ledger. `fault`: what took the node down. `is_shared`: others used the value that the
    owner had set, so any client that compared it could delete the key. `given`: the time to live by which it was over
    before its lease. `covered`: what was set over the key, before all of it was deleted. `mistaken`: the request that
    took the other's key, which had the same value, for its client's."""

    how: How
    granted: NodeEvent
    until_ns: int
    by: NodeEvent | None = None
    fault: Window | None = None
    is_shared: bool = False
    change: Change | None = None
    given: GivenTtl | None = None
    mistaken: Change | None = None
    covered: tuple[Change, ...] = ()

    @property
    def cause(self) -> Cause:
        if self.is_shared:
            return "shared value"
        is_own = self.how == "deleted" and self.change is not None and may_be_of(self.change, self.granted.client or "")
        return "deleted by itself" if is_own else of_loss(self.how)


@dataclass(frozen=True, slots=True)
class NodePart:
    """One node's part in an overlap. `loss`: set if it granted the lock to both; `first` is the owner of the lost key.
    `down`: what took the node down in between. `others`: what it granted to others in between, in order."""

    node: str
    earlier: NodeReply
    later: NodeReply
    first: Side | None = None
    second: Side | None = None
    loss: Loss | None = None
    down: Window | None = None
    others: tuple[NodeEvent, ...] = ()


def parts(run: Recorded, evidence: Evidence, earlier: Side, later: Side) -> tuple[NodePart, ...]:
    """Every node's part in the overlap of two sections; empty if nothing is known about the nodes' replies."""
    faults = windows(run.faults)
    to_earlier, to_later = (replies(run, evidence, side) for side in (earlier, later))
    found = tuple(
        _part(run, evidence, faults, node, (earlier, to_earlier[node]), (later, to_later[node])) for node in run.nodes
    )
    known = any(said.word is not None for part in found for said in (part.earlier, part.later))
    return found if known else ()


def went_down(event: FaultEvent) -> bool:
    """Whether the fault took its nodes down, so that they forgot everything that was not persisted."""
    return bool(event.nodes) and event.took_nodes_down


def _part(
    run: Recorded,
    evidence: Evidence,
    faults: Sequence[Window],
    node: str,
    first: tuple[Side, NodeReply],
    second: tuple[Side, NodeReply],
) -> NodePart:
    (earlier, to_earlier), (later, to_later) = first, second
    down = _down_between(faults, node, min(earlier.asked_from_ns, later.asked_from_ns), later.start_ns)
    others = _others(evidence, node, first, second)
    if to_earlier.granted is None or to_later.granted is None:
        return NodePart(node, to_earlier, to_later, down=down, others=others)
    as_entered = (earlier, to_earlier.granted), (later, to_later.granted)
    orders = [as_entered, as_entered[::-1]]
    if to_earlier.granted.by_ns > to_later.granted.by_ns:
        orders.reverse()
    seen = evidence.set_of(to_earlier.granted), evidence.set_of(to_later.granted)
    if seen[0] is not None and seen[1] is not None:
        # In the order of the node itself.
        orders = [as_entered if seen[1].surely_follows(seen[0]) else as_entered[::-1]]
    elif orders[0][1][1].surely_follows(orders[0][0][1]):
        del orders[1]  # otherwise the replies may have been read in a different order than they were sent
    tried = [(order, _loss(run, evidence, faults, order[0][1], order[1][1])) for order in orders]
    order, loss = next((one for one in tried if one[1].how != "unknown"), tried[0])
    loss = _more_exactly(run, evidence, loss, order)
    is_readers = _is_readers(run, order[0][0])
    if loss.how in ("deleted", "unknown"):
        loss = replace(loss, is_shared=_is_shared(run, loss, is_readers=is_readers))
    if not (loss.is_shared or is_readers) and (by := _who_drew_the_same(run, evidence, loss, order)) is not None:
        loss = replace(loss, is_shared=True, mistaken=by)
    return NodePart(node, to_earlier, to_later, order[0][0], order[1][0], loss, down, others)


def _more_exactly(
    run: Recorded, evidence: Evidence, loss: Loss, order: tuple[tuple[Side, NodeEvent], tuple[Side, NodeEvent]]
) -> Loss:
    """The same loss, where the owner's own requests explain it: by the time to live that they gave the key, or by a
    nested acquire and its release."""
    (owner, granted), (_, again) = order
    change = loss.change
    if change is not None and change["what"] in ("deleted", "overwritten") and change["task"] == owner.client:
        assert evidence.ledger is not None
        lived = lived_ms(evidence.ledger, change)
        if was_over_at_once(change) or (lived is not None and lived < run.lease_ms / 2):
            return replace(loss, how="short TTL")
        return replace(loss, how="nested release") if _is_nested(evidence, change) else loss
    if loss.how == "deleted":
        return loss
    is_taken = change is not None and change["what"] not in ("lost", "expired")
    ended_ns = int(change["at_ns"]) if change is not None and is_taken else again.after_ns
    given = too_short(run, evidence, granted, owner, ended_ns)
    if given is not None:
        return replace(loss, how="short TTL", given=given)
    # It may have been forgotten before, but was over when the node granted the lock again.
    is_over = loss.how == "went down" and _is_over(run, evidence, granted, again, change)
    return replace(loss, how="expired") if is_over else loss


def _is_nested(evidence: Evidence, change: Change) -> bool:
    """Whether a nested release of the owner deleted the key, or what its nested acquire had set over it."""
    if change["what"] == "overwritten" and change["f"] == "reenter" and evidence.ledger is not None:
        gone = evidence.ledger.end_of_event(change["event"])
        if gone is None or gone["what"] != "deleted" or gone["task"] != change["task"]:
            return False
        change = gone
    return bool(change["what"] == "deleted" and change["f"] == "leave")


def _is_over(run: Recorded, evidence: Evidence, granted: NodeEvent, again: NodeEvent, lost: Change | None) -> bool:
    """Whether the key of a grant had certainly expired before the node granted the lock again."""
    if run.wrong_clocks.touch(granted.node, granted.after_ns, again.by_ns):
        return False
    events = evidence.on(granted.node, granted.key)
    renewed = (e.by_ns for e in events if e.what == "prolonged" and e.whose == granted.whose and e.by_ns < again.by_ns)
    ttl_ms = given_ttl(evidence, granted, again.after_ns) or run.lease_ms
    over_ns = max([granted.by_ns, *renewed]) + round(ttl_ms * 1e6)
    if lost is not None and lost["had_until_ns"] < FOREVER_NS:
        over_ns = max(over_ns, int(lost["had_until_ns"]) + CLOCK_SLACK_NS)
    return bool(again.after_ns >= over_ns)


def _others(
    evidence: Evidence, node: str, first: tuple[Side, NodeReply], second: tuple[Side, NodeReply]
) -> tuple[NodeEvent, ...]:
    """What the node certainly granted to others after its grant to the first, or after the first had asked; and before
    its grant to the second, or before the second entered."""
    (earlier, to_earlier), (later, to_later) = first, second
    since_ns = earlier.asked_from_ns if to_earlier.granted is None else to_earlier.granted.by_ns
    until_ns = later.start_ns if to_later.granted is None else to_later.granted.after_ns
    granted = (event for event in evidence.on(node, earlier.key) if event.what == "granted")
    return tuple(
        event
        for event in granted
        if event.after_ns >= since_ns and event.by_ns <= until_ns
        if not any(event.may_be_of(side.client, side.section) for side in (earlier, later))
    )


def _loss(run: Recorded, evidence: Evidence, faults: Sequence[Window], granted: NodeEvent, again: NodeEvent) -> Loss:
    """How the node lost the key of `granted` before it granted the lock `again`, to another client."""
    events = evidence.on(granted.node, granted.key)
    grants = [e for e in events if e.what == "granted" and e.whose != granted.whose and e.by_ns >= granted.by_ns]
    following = min([again, *grants], key=lambda e: e.by_ns)
    until_ns = following.by_ns
    if (on_record := _loss_on_record(evidence, faults, granted, again)) is not None:
        return on_record
    ended = evidence.end_of(granted)
    if ended is not None and ended.surely_follows(following):
        return Loss("unknown", granted, until_ns)  # it was still there: the other one came first
    if (ended is not None and ended.what == "granted") or (ended is None and evidence.was_unread_before(following)):
        return Loss("overwritten", granted, until_ns)
    if ended is not None and ended.what == "expired":
        return Loss("expired", granted, until_ns, by=ended)
    gone = [e for e in events if e.what in ("deleted", "expired")]
    gone = [e for e in gone if e.may_follow(granted) and following.may_follow(e)]
    for event in sorted(gone, key=lambda e: not e.surely_follows(granted)):  # certainly later ones first
        surely = event.surely_follows(granted)
        if surely or (event.what == "deleted" and not holds_own(evidence, event)):
            return Loss("expired" if event.what == "expired" else "deleted", granted, until_ns, by=event)
    if (down := _down_between(faults, granted.node, granted.after_ns, until_ns)) is not None:
        return Loss("went down", granted, until_ns, fault=down)
    prolonged = [
        e.after_ns for e in events if e.what == "prolonged" and e.whose == granted.whose and e.by_ns < until_ns
    ]
    if until_ns >= max([granted.after_ns, *prolonged]) + run.lease_ms * 1_000_000:
        return Loss("expired", granted, until_ns)
    # An owner's release that may have come late: the key that it deleted is unknown, but nothing else can have deleted
    # it.
    late = next((e for e in gone if e.what == "deleted" and e.whose != granted.whose), None)
    return Loss("unknown" if late is None else "deleted", granted, until_ns, by=late)


def _loss_on_record(evidence: Evidence, faults: Sequence[Window], granted: NodeEvent, again: NodeEvent) -> Loss | None:
    """What the ledger says of the key; None if that is not on record, or came later than the other grant."""
    change, following = evidence.loss_of(granted), evidence.set_of(again)
    if change is None or (following is not None and following.order is not None and change["event"] > following.order):
        return None
    if following is None and change["since_ns"] > again.by_ns:
        return None
    loss = partial(Loss, granted=granted, until_ns=again.by_ns, change=change)
    match change["what"]:
        case "lost" | "overwritten" as what if what == "lost" or change["cause"] == "restart":
            down = _down_between(faults, granted.node, granted.after_ns, int(change["at_ns"]))
            return None if down is None else loss("went down", fault=down)
        case "expired" | "deleted" as what:
            order = int(change["event"])
            seen = next((e for e in evidence.seen[granted.key, granted.node] if e.order == order), None)
            return None if seen is None else loss(what, by=seen)
        case "overwritten":
            if (deleted := _deleted_after(evidence, granted, change, following)) is not None:
                return deleted
            return loss("overwritten" if change["is_seen"] else "unknown")
    return None


def _deleted_after(evidence: Evidence, granted: NodeEvent, change: Change, following: NodeEvent | None) -> Loss | None:
    """The deletion that freed a key which had been overwritten, if the client that sent it had not set what it deleted.
    What others set over a key leaves the lock taken; the next grant needed the deletion."""
    ledger, covered = evidence.ledger, list[Change]()
    if ledger is None or following is None or following.order is None or not change["is_seen"]:
        return None
    while change["what"] == "overwritten":
        covered.append(change)
        end = ledger.end_of_event(change["event"])
        if end is None:
            return None
        change = end
    seen = next((e for e in evidence.seen[granted.key, granted.node] if e.order == int(change["event"])), None)
    is_anothers = change["client"] is not None and change["client"] != covered[-1]["client"]
    if change["what"] != "deleted" or seen is None or change["event"] > following.order or not is_anothers:
        return None
    return Loss("deleted", granted, following.by_ns, by=seen, change=change, covered=tuple(covered))


def _is_readers(run: Recorded, owner: Side) -> bool:
    """Whether the owner was a reader. Readers may all have the same value: they share the lock."""
    sections = run.sections
    if "shared" not in sections:
        return False
    return bool(sections["shared"].iloc[run.places[owner.client, owner.life, owner.section]])


def _is_shared(run: Recorded, loss: Loss, *, is_readers: bool) -> bool:
    """Whether others certainly used the value of the key that was lost, for the same key."""
    value, by = loss.granted.value, loss.by
    if value is None:
        return False
    if loss.change is not None and run.ledger is not None and not run.ledger.sent.compared(loss.change):
        return False
    whose = None if by is None or by.client is None or by.value != value else by.whose[:2]
    if not is_readers and whose not in (None, loss.granted.whose[:2]):
        return True
    shared = {} if run.owners is None else run.owners.shared
    keys = {
        name for (key, one), rows in shared.items() if one == value for name in (key, run.sections["key"].iloc[rows[0]])
    }
    return loss.granted.key in keys


def _who_drew_the_same(
    run: Recorded, evidence: Evidence, loss: Loss, order: tuple[tuple[Side, NodeEvent], tuple[Side, NodeEvent]]
) -> Change | None:
    """The request by which a client that had drawn the same value as another changed the other's key: one that deleted
    the first key, or the first owner's, that prolonged the second key; None if none is on record."""
    (owner, granted), (_, again) = order
    value, change, ledger = granted.value, loss.change, evidence.ledger
    if value is None or ledger is None:
        return None
    if loss.how == "deleted" and change is not None and change["client"] and not may_be_of(change, owner.client):
        return change if ledger.drew_it_too(change) else None
    seen = evidence.set_of(again)
    if again.value != value or seen is None or seen.order is None:
        return None
    rows = ledger.rows
    (own,) = np.flatnonzero((rows["event"] == seen.order).to_numpy(bool))
    its = (rows["of"] == own) & (rows["what"] == "prolonged") & (rows["task"] == owner.client)
    return next(iter(changes_where(ledger, its)), None)


def _down_between(faults: Sequence[Window], node: str, from_ns: int, until_ns: int) -> Window | None:
    """The first fault within the time that took the node down."""
    down = (w for w in faults if went_down(w.event) and node in w.event.nodes)
    return next((w for w in down if w.event.began_ns < until_ns and (w.to_ns is None or w.to_ns > from_ns)), None)


def holds_own(evidence: Evidence, deletion: NodeEvent) -> bool:
    """Whether the key may be the deleting client's own: the node had granted it to that client, or may have."""
    client, node, key = deletion.client, deletion.node, deletion.key
    if client is None or not evidence.has_all(client, node):
        return True
    asked = evidence.asked_by(client, node, key, 0, deletion.by_ns)
    return any(one.section == deletion.section and not one.is_refused for one in asked)
