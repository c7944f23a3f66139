"""How two clients came to be inside at the same time: a sentence for each kind of blame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from fencepost.quorum import quorum
from fencepost.text import listed, plural, printable
from harness.explain.by_count import by_count
from harness.explain.causes import Cause
from harness.explain.evidence import Evidence
from harness.explain.examples import Side
from harness.explain.expiries import over_at_once
from harness.explain.let_in import late_release, let_in
from harness.explain.node_replies import NodeReply, counted_errors, refused_by
from harness.explain.nodes import Loss, NodePart, went_down
from harness.explain.renewals import renewals_ended
from harness.explain.requests import client_of, who_did
from harness.explain.same_value import task_release
from harness.explain.server_changes import by_failover
from harness.explain.taken_entry import entry_taken
from harness.explain.witnessed import NodeEvent
from harness.explain.words import (
    at,
    brought_down,
    kept_from_coming,
    keys_of,
    lasting,
    of_nodes,
    standstill,
    was,
    what_kept,
    why_forgotten,
    yes_to_another_request,
)
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import grouped
from harness.history.ledger import Change
from harness.history.quorum_support import WeakStretch, losses_by_node
from harness.history.recorded import Recorded
from harness.history.renewal_requests import renewal_requests

NOT_RECORDED = "The record does not show which nodes granted it, so this cannot be explained further."
_UNKNOWN_START = "the lock does not report when its validity started to count"


def by_lock(
    run: Recorded, evidence: Evidence, parts: Sequence[NodePart], earlier: Side, later: Side
) -> tuple[str, Cause]:
    """Both were within their leases: how could a second client acquire the lock? With the cause."""
    if told := by_failover(run, parts, earlier, later):
        return told, "failover"
    if told := task_release(run, earlier, later):
        return told, "another task's release"
    granted_to_few, told = too_few(run, parts, earlier, later), losses(run, parts)
    taken, wire = entry_taken(run, evidence.wire, [earlier], later), evidence.wire
    if taken is not None and not (run.is_exclusive and (granted_to_few or told)):
        return f"{taken.text} So {later.client} could enter.", taken.cause
    if granted_to_few:
        return granted_to_few, _cause_of_few(parts, earlier, later)
    cause = _cause_of_losses(run, parts, later)
    if cause == "unknown" and taken is not None:
        cause = taken.cause
    elif cause == "unknown" and (alone := by_count(run, earlier, later)):
        if not told:
            return alone, "count alone"
        cause = "count alone"
    elif cause == "unknown" and wire is not None and late_release(run, wire, earlier, later):
        cause = "late release"
    if told:
        return f"{told}." if run.one_serves else f"{told}. {_counts(run, parts, earlier, later)}", cause
    if wire is not None and (answered := let_in(run, wire, earlier, later)):
        return answered, cause
    if parts:
        text = (
            f"The record shows no node that granted the lock to both {earlier.client} and {later.client}; the nodes' "
            f"replies are known only in part.{_without_a_majority(run, earlier, later)}"
        )
        return text, cause
    both = f"Both {earlier.client} and {later.client} acquired the lock. {NOT_RECORDED}"
    return both + _went_down_between(run, earlier, later), cause


def _cause_of_losses(run: Recorded, parts: Sequence[NodePart], later: Side) -> Cause:
    """What most nodes that granted it to both had lost the key by. Of keys that had expired, why none was renewed."""
    cause = cause_of(parts)
    if cause != "expired":
        return cause
    expired = (part.first for part in parts if part.loss is not None and part.loss.how == "expired")
    of_renewals = {side and renewals_ended(run, side, later.start_ns)[1] for side in expired}
    return (of_renewals.pop() or cause) if len(of_renewals) == 1 else cause


def cause_of(parts: Sequence[NodePart]) -> Cause:
    """What most of the nodes that granted it to both had lost the key by."""
    causes = Counter(part.loss.cause for part in parts if part.loss is not None and part.loss.cause != "unknown")
    return causes.most_common(1)[0][0] if causes else "unknown"


def _replies(parts: Sequence[NodePart], earlier: Side, later: Side) -> list[tuple[Side, dict[str, NodeReply]]]:
    """What each node had replied to each of the two."""
    return [(earlier, {one.node: one.earlier for one in parts}), (later, {one.node: one.later for one in parts})]


def by_client(run: Recorded, earlier: Side, later: Side) -> str:
    """One of them had outlived its lease."""
    meet_ns = later.start_ns
    late = [side for side in (earlier, later) if side.deadline_max_ns < meet_ns or side.has_lapsed(meet_ns)]
    texts = []
    for side in late:
        other = later if side is earlier else earlier
        lease = f"its {_lease(side)}"
        if side.has_lapsed(meet_ns):
            before, after = lasting(meet_ns - side.lapsed_from_ns), lasting(side.lapsed_to_ns - meet_ns)
            texts.append(
                f"{side.client} {what_kept(run, side)}; its lease had expired {before} before {other.client} entered, "
                f"and no extension of it can have come until {after} after that"
            )
            continue
        if side.deadline_max_ns < side.start_ns:
            over = lasting(side.start_ns - side.deadline_max_ns)
            texts.append(
                f"{side.client} {kept_from_coming(run, side)}; {lease} had expired {over} before {side.client} "
                f"entered, while {other.client} was inside"
                if side is later
                else f"{side.client} {kept_from_coming(run, side)} and entered {over} after {lease} had expired; "
                f"then {other.client} entered"
            )
        else:
            before = lasting(meet_ns - side.deadline_max_ns)
            texts.append(
                f"{side.client} {what_kept(run, side)}; {lease} had expired {before} before {other.client} entered"
            )
    return f"{'; and '.join(texts)}. The client outlived its lease{_by_the_lock(run, late, meet_ns)}."


def _by_the_lock(run: Recorded, late: Sequence[Side], meet_ns: int) -> str:
    """What the lock had done for these leases. One that renews them by itself may have failed to."""
    if run.config.renewal_ms is None:
        return "; the lock did nothing wrong"
    ledger = run.whole_ledger
    if ledger is None or not (keys := run.lock_keys):
        return ""
    asked = any(one.from_client_ns < meet_ns for side in late for one in renewal_requests(run, ledger.sent, side, keys))
    return "" if asked else ", and no request to renew it is on record"


def undecided(run: Recorded, parts: Sequence[NodePart], earlier: Side, later: Side) -> str:
    """One of them may have outlived its lease."""
    meet_ns = later.start_ns
    if meet_ns > earlier.end_ns:
        return "The record shows no overlap of the two."
    texts = []
    for side in (earlier, later):
        if not side.deadline_min_ns < meet_ns <= side.deadline_max_ns:
            continue
        came = f"{later.client} entered in between, at {at(run, meet_ns)}"
        if side.was_void:
            texts.append(f"{side.client} was let in with a lease that was over by the lock's own account")
            continue
        if side.deadline_max_ns >= FOREVER_NS:
            texts.append(
                f"{side.client}'s lock reported no validity, so it is unknown whether the lease had expired by then"
            )
            continue
        between = f"between {at(run, side.deadline_min_ns)} and {at(run, side.deadline_max_ns)}"
        stood = standstill(run, side, side.asked_from_ns, side.start_ns)
        if side.extensions:
            why = "an extension of it may have come too late"
        elif stood:
            why = f"the client {stood} while it acquired, and {_UNKNOWN_START}"
        else:
            why = _UNKNOWN_START
        texts.append(f"{side.client}'s {_lease(side)} expired {between} ({why}), and {came}")
    text = f"{'; '.join(texts)}. The record allows both readings."
    told = losses(run, parts) if parts else ""
    return f"{text} On the nodes: {told}." if told else text


def _without_a_majority(run: Recorded, earlier: Side, later: Side) -> str:
    """Which of them certainly had no majority of the nodes while both were inside, and why the nodes lacked its key;
    empty if that is not known."""
    texts = []
    for side, stretch in weak_sides(run, earlier, later):
        why = "; ".join(losses_by_node(stretch.losses))
        since = at(run, stretch.from_ns)
        texts.append(f" From {since} on, no majority of the nodes can have held {side.client}'s key: {why}.")
    return "".join(texts)


def weak_sides(run: Recorded, earlier: Side, later: Side) -> Iterator[tuple[Side, WeakStretch]]:
    """Those of them that certainly had no majority of the nodes while both were inside, and when."""
    if run.backing is None:
        return
    until_ns = min(side.end_ns for side in (earlier, later))
    for side in (earlier, later):
        place = run.places[side.client, side.life, side.section]
        if place in run.backing.owners.values:
            stretch = run.backing.unbacked(place, later.start_ns, until_ns)
            if stretch is not None:
                yield side, stretch


def losses(run: Recorded, parts: Sequence[NodePart]) -> str:
    """How some nodes came to grant the lock to both; without a full stop, empty if there are no such nodes."""
    groups = grouped((_alike(part), part) for part in parts if part.loss is not None)
    return ". ".join(_loss(run, group) for group in groups.values())


def _alike(part: NodePart) -> tuple[object, ...]:
    loss = part.loss
    assert loss is not None
    fault = loss.fault.event.fault if loss.fault else None
    return loss.how, fault, (loss.by.client, loss.by.section) if loss.by else None, part.first, loss.is_shared


def _loss(run: Recorded, group: Sequence[NodePart]) -> str:
    nodes = [part.node for part in group]
    first, second, loss = group[0].first, group[0].second, group[0].loss
    assert first is not None
    assert second is not None
    assert loss is not None
    had = f"{listed(nodes)} had granted the lock to {first.client}"
    again = f"granted the lock to {second.client} while {first.client}'s lease was still valid"
    then = f"Then {listed(nodes)} {again}"
    match loss.how:
        case _ if loss.mistaken is not None:
            return _mistaken(run, first, second, loss, had, then)
        case "went down":
            assert loss.fault is not None
            down_ns, up_ns = loss.fault.event.began_ns, loss.fault.to_ns
            after_ns = down_ns - loss.granted.by_ns
            soon = f"{lasting(after_ns)} later" if after_ns > 0 else "immediately"
            back = f"came back {lasting(up_ns - down_ns)} later" if up_ns else "came back"
            return (
                f"{had}, {brought_down(loss.fault, nodes)} {soon}, {back} without the key "
                f"({why_forgotten(run, loss.fault)}), and {again}"
            )
        case "short TTL" if loss.given is not None:
            return f"{had}; {_too_short(run, first.client, loss)}. {then}"
        case "short TTL":
            assert loss.change is not None
            done = who_did(run, loss.change, first.client, over_at_once(run, loss.change))
            return f"{had}; {done}. {then}"
        case "nested release":
            return f"{had}; {_nested(run, first.client, loss)}. {then}"
        case "deleted" if run.ledger is not None and loss.change is not None:
            done = who_did(run, loss.change, first.client, "deleted it")
            same = " (other clients used the same value)" if loss.is_shared else ""
            if loss.covered:
                who = list(dict.fromkeys(client_of(one) or "an unrecorded client" for one in loss.covered))
                values = "another value" if len(loss.covered) == 1 else "other values"
                done = f"{listed(who)} set {values} over it; then {done}"
            return f"{had}; {done}{same}. {then}"
        case "overwritten" if run.ledger is not None and loss.change is not None:
            return f"{had}; {_set_over(run, loss.change, first.client)}"
        case _ if loss.is_shared:
            return f"{had}; {_deleted_by_value(loss)}. {then}"
        case "deleted":
            assert loss.by is not None
            return f"{had}; {_deleted(loss.by)}. {then}"
        case "expired":
            them = "that node" if len(nodes) == 1 else "those nodes"
            return f"{_expired(run, group)}, and {them} granted the lock to {second.client}"
        case "overwritten":
            over = "although the key still existed: it was overwritten"
            return f"{had}, and granted it to another client by {at(run, loss.until_ns)} {over}"
        case _:
            return (
                f"{had} at {at(run, loss.granted.by_ns)} and to another client by {at(run, loss.until_ns)}; the record "
                "does not show what happened to the key"
            )


def _set_over(run: Recorded, change: Change, owner: str) -> str:
    """A value that was gone before it could be read may be the one that it replaced, if its client had set both."""
    is_own = client_of(change) == owner and change["value"] is None
    return who_did(run, change, owner, "set it anew" if is_own else "set another value over it")


def _too_short(run: Recorded, client: str, loss: Loss) -> str:
    """`c1 had given it a TTL of 30 ms (SET), but the lock told c1 a lease of 97 ms: it had expired by +42.0 ms`."""
    given = loss.given
    assert given is not None
    return (
        f"{client} had given it a TTL of {given.ttl_ms:,.0f} ms ({given.command}), but the lock told {client} a lease "
        f"of {given.lease_ms:,.0f} ms: it had expired by {at(run, given.over_ns)}"
    )


def _mistaken(run: Recorded, owner: Side, other: Side, loss: Loss, had: str, again: str) -> str:
    """`c1 and c3 had drawn the same value, a. n1 had granted the lock to c1; c3, which did not own the key, …`."""
    change = loss.mistaken
    assert change is not None
    value = printable(str(loss.granted.value))
    both, done = other.client, f"prolonged the key of {other.client}"
    done = f"that key was gone ({loss.how}). {again}. Later, {who_did(run, change, other.client, done)}"
    if change["what"] == "deleted":
        both, done = str(client_of(change)), f"{who_did(run, change, owner.client, 'deleted it')}. {again}"
    return f"{owner.client} and {both} had drawn the same value, {value}. {had}; {done}"


def _nested(run: Recorded, client: str, loss: Loss) -> str:
    """What the owner's nested calls did to its key."""
    change, ledger = loss.change, run.ledger
    assert change is not None
    assert ledger is not None
    if change["what"] == "deleted":
        return who_did(run, change, client, "deleted it")
    end = ledger.end_of_event(change["event"])
    assert end is not None
    gone = who_did(run, end, client, "deleted that")
    return f"{_set_over(run, change, client)}; then {gone}"


def _deleted_by_value(loss: Loss) -> str:
    """`c5 deleted the key, because its own key has the same value`."""
    if loss.by is not None and loss.by.client is not None and loss.by.value == loss.granted.value:
        return f"{loss.by.client} deleted the key, because its own key has the same value"
    return "other clients used the same value for their keys and could delete this one"


def _deleted(by: NodeEvent) -> str:
    """`c5, which did not own the key, deleted it`."""
    if by.client is None:
        return "the key was deleted there, by a client that was not recorded"
    return f"{by.client}, which did not own the key, deleted it"


def _expired(run: Recorded, group: Sequence[NodePart]) -> str:
    first = group[0].first
    assert first is not None
    found = [part.loss for part in group if part.loss is not None]
    ttl, keys = run.lease_ms, keys_of(first.client, [part.node for part in group])
    seen_ns = [loss.by.by_ns for loss in found if loss.by is not None]
    if seen_ns and min(seen_ns) < min(loss.granted.after_ns for loss in found) + ttl * 1_000_000:
        text = f"{keys} had expired by {at(run, max(seen_ns))}, before the TTL of {ttl:,.0f} ms had passed"
        return text + _clocks(run, group, min(loss.granted.after_ns for loss in found), max(seen_ns))
    text = f"{keys} had expired "
    if any(loss.by is not None and loss.by.after_ns > loss.granted.by_ns + ttl * 1_000_000 for loss in found):
        text += f"by {at(run, max(seen_ns))}"  # the lock gave them longer than it was asked for
    else:
        were = f"{'it was' if len(found) == 1 else 'they were'} {'last set or extended' if first.extensions else 'set'}"
        text += f"{ttl:,.0f} ms after {were}"
    if first.deadline_min_ns > max(loss.granted.by_ns for loss in found) + ttl * 1_000_000:
        until = at(run, first.deadline_min_ns)
        text += f", although the validity that the lock reported to {first.client} lasted until {until}"
    assert group[0].second is not None
    note, _ = renewals_ended(run, first, group[0].second.start_ns)
    return f"{text}; {note}" if note else text


def _clocks(run: Recorded, group: Sequence[NodePart], from_ns: int, until_ns: int) -> str:
    """Which of these nodes' clocks were wrong in between: `, because the clock of n3 was wrong`; else empty."""
    wrong = [part.node for part in group if run.wrong_clocks.touch(part.node, from_ns, until_ns)]
    if not wrong:
        return ""
    return f", because the {'clock' if len(wrong) == 1 else 'clocks'} of {listed(wrong)} {was(wrong)} wrong"


def too_few(run: Recorded, parts: Sequence[NodePart], earlier: Side, later: Side) -> str:
    """Says so if one of them acquired the lock with less than a majority; empty if not, or if it is not known which
    nodes granted it."""
    if not parts or run.one_serves:
        return ""
    majority = quorum(len(run.nodes))
    texts = []
    for side, said in _replies(parts, earlier, later):
        yes = [node for node, one in said.items() if one.heard]
        if len(yes) < majority and all(one.is_known for one in said.values()):
            who = f"only {listed(yes)} had granted it" if yes else "no node had granted it"
            late = [node for node, one in said.items() if one.has_earlier_yes]
            note = yes_to_another_request(side.client, late) if late else counted_errors(said)
            note = note or (f"{listed(refused)} had refused it" if (refused := refused_by(said)) else "")
            texts.append(f"{side.client} acquired the lock although {who}{_absent(said, note)}")
    if not texts:
        return ""
    if len(run.nodes) == 1:
        return f"{' and '.join(texts)}."
    shared = any(part.loss is not None for part in parts)
    tail = "" if shared else ", and no node granted the lock to both clients"
    return f"{' and '.join(texts)}: fewer than the majority of {majority} of {plural(len(run.nodes), 'node')}{tail}."


def _cause_of_few(parts: Sequence[NodePart], earlier: Side, later: Side) -> Cause:
    replies = [said for _, said in _replies(parts, earlier, later)]
    if any(map(counted_errors, replies)):
        return "granted on errors"
    if any(one.has_earlier_yes for said in replies for one in said.values()):
        return "another reply"
    return "granted when refused" if any(map(refused_by, replies)) else "too few nodes"


def _counts(run: Recorded, parts: Sequence[NodePart], earlier: Side, later: Side) -> str:
    """`So c3 had 3 of 5 nodes (n4 and n5 did not reply: …), and c7 had 4 of 5 nodes.`"""
    texts = []
    for side, said in _replies(parts, earlier, later):
        of = of_nodes(sum(one.yes for one in said.values()), run)
        texts.append(f"{side.client} had {of}{_absent(said)}")
    return f"So {texts[0]}, and {texts[1]}."


def _absent(said: Mapping[str, NodeReply], note: str = "") -> str:
    """` (n3 did not reply; n4 was not asked: partition)`; empty if all nodes replied, and there is no `note`."""
    faults = {one.cut.event.nemesis for one in said.values() if one.cut is not None and one.word != "not set"}
    silent, unasked = ([node for node, one in said.items() if one.word == word] for word in ("silent", "not asked"))
    told = [f"{listed(silent)} did not reply"] if silent else []
    told += [f"{listed(unasked)} {was(unasked)} not asked"] if unasked else []
    text = "; ".join(told) + (f": {listed(sorted(faults))}" if told and faults else "")
    text = "; ".join(filter(None, (text, note)))
    return f" ({text})" if text else ""


def _lease(side: Side) -> str:
    """`lease of 980 ms`; just `lease` if no validity was reported, or none was left."""
    told = side.validity_ms
    return "lease" if told is None or told <= 0 else f"lease of {lasting(told * 1e6)}"


def _went_down_between(run: Recorded, earlier: Side, later: Side) -> str:
    """Nodes that went down between the two grants: not proof of the cause, but a hint."""
    nodes = sorted(
        {
            node
            for event in run.faults
            if event.event == "injected" and went_down(event)
            if earlier.asked_from_ns <= event.began_ns <= later.start_ns
            for node in event.nodes
        }
    )
    if not nodes:
        return ""
    return f" {listed(nodes)} {was(nodes)} down for a while between the two grants."
