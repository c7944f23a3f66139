"""How two clients came to be inside because the server changed its mind: a failover (one server granted the lock as the
primary, and so did another one), or the end of the session by which a client held a lock for which no time was
promised."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from fencepost.history import process_of
from fencepost.text import printable
from harness.explain.causes import Cause
from harness.explain.examples import Side
from harness.explain.nodes import NodePart
from harness.explain.words import at, lasting
from harness.history.fault_windows import FOREVER_NS
from harness.history.open_ended_leases import calm_until_ns
from harness.history.recorded import Recorded
from harness.history.sessions import SessionEnds, Subscriptions


def by_failover(run: Recorded, parts: Sequence[NodePart], earlier: Side, later: Side) -> str:
    """`The lock was lost by a failover: n1 granted it to c1 by +1.0 ms, and n2, which did not have that key, granted it
    to c2 by +9.0 ms. n1 led until +4.0 ms (kill n1), and n2 led 2 ms later.` Empty unless the primary alone serves, and
    each client was let in by another server."""
    if not run.one_serves:
        return ""
    first = next((one for one in parts if one.earlier.heard), None)
    second = next((one for one in parts if one.later.heard), None)
    if first is None or second is None or first.node == second.node:
        return ""
    granted, again = first.earlier.granted, second.later.granted
    assert granted is not None
    assert again is not None
    return (
        f"The lock was lost by a failover: {first.node} granted it to {earlier.client} by {at(run, granted.by_ns)}, "
        f"and {second.node}, which did not have that key, granted it to {later.client} by {at(run, again.by_ns)}."
        f"{_change(run, {first.node, second.node}, max(granted.by_ns, again.by_ns))}"
    )


def _change(run: Recorded, nodes: Collection[str], until_ns: int) -> str:
    """The last fault by then that hit one of them as the leader, and after which no third node led."""
    changes = [
        one
        for one in run.faults
        if one.event == "injected" and one.began_ns <= until_ns
        if one.led_by in nodes and one.elected in (None, *nodes)
    ]
    if not changes:
        return ""
    last = max(changes, key=lambda one: one.began_ns)
    hit = f" {last.led_by} led until {at(run, last.began_ns)} ({printable(last.what)})"
    if last.elected is None or last.elected_after_ms is None:
        return f"{hit}."
    return f"{hit}, and {last.elected} led {lasting(last.elected_after_ms * 1e6)} later."


def by_session(run: Recorded, earlier: Side, later: Side) -> tuple[str, Cause]:
    """A sentence and the cause. It is the lock's fault if the first client still held it."""
    session, meet_ns = held_session(run, earlier), later.start_ns
    has_ended = session.ended_ns < meet_ns
    cause: Cause = "ended session" if has_ended else "unknown"
    text = f"The lock promised no time to {earlier.client}. "
    if has_ended:
        which = f", the subscription to {session.channel}," if session.channel else ""
        text += f"The connection of its session{which} was closed at {at(run, session.ended_ns)}, and "
    text += f"{later.client} entered at {at(run, meet_ns)}. "
    if has_ended and session.anew_ns < FOREVER_NS:
        text += f"{earlier.client} subscribed anew at {at(run, session.anew_ns)}, without another acquire. "
    if earlier.deadline_min_ns >= meet_ns:
        until = at(run, earlier.deadline_min_ns)
        if _was_vouched_for(run, earlier, meet_ns):
            return f"{text}The lock told {earlier.client} afterwards that it had held the lock until {until}.", cause
        if calm_until_ns(run)[run.places[earlier.client, earlier.life, earlier.section]] < meet_ns:
            taken = f"Another client's request took out the entry of {earlier.client}, which was inside until {until}."
            return f"{text}{taken}", cause
        text += (
            f"Until {until} nothing can have ended the session of {earlier.client}, which had not released the lock."
        )
        if left_ns := _left_nested_ns(run, earlier, meet_ns):
            text += f" It had released a nested acquire by {at(run, left_ns)}."
            cause = "given back early"
    elif has_ended:
        text += f"{earlier.client} need not have known that, and was not told that it still held the lock."
    else:
        text += f"When the session of {earlier.client} ended is not on record. The record allows both readings."
    return text, cause


def _left_nested_ns(run: Recorded, side: Side, by_ns: int) -> int:
    """When the client had released a nested acquire in this section, by this time; 0 if it had not."""
    ops = run.calls("leave", "ok")
    own = (ops["client"] == side.client) & (ops["life"] == side.life) & (ops["section"] == side.section)
    left_ns = ops["complete_ns"][(own & (ops["complete_ns"] <= by_ns)).to_numpy(bool)]
    return int(left_ns.max()) if len(left_ns) else 0


def _was_vouched_for(run: Recorded, side: Side, since_ns: int) -> bool:
    """Whether the lock said then, or later, that the client still held it, or had held it until its release."""
    ops = run.ops
    own = (ops["client"] == side.client) & (ops["life"] == side.life) & (ops["section"] == side.section)
    said = own & ops["f"].isin(["held", "release", "extend"]) & (ops["outcome"] == "ok")
    return bool((said & (ops["complete_ns"] >= since_ns)).any())


class HeldSession(NamedTuple):
    """`channel`: of a session that was a subscription. `anew_ns`: when its client subscribed again while inside."""

    ended_ns: int = FOREVER_NS
    channel: str = ""
    anew_ns: int = FOREVER_NS


def held_session(run: Recorded, side: Side) -> HeldSession:
    connections = run.sessions()
    if connections is None:
        return _subscribed(run, side)
    return HeldSession(
        SessionEnds(connections, run.config.node_names).of(side.client, side.asked_from_ns, side.start_ns)
    )


def _subscribed(run: Recorded, side: Side) -> HeldSession:
    """The subscription by which a client held the lock: its acquire set no key, and subscribed to a channel with the
    lock's name in it."""
    wire, ledger = run.wire(), run.ledger
    if wire is None or not wire.recorded.issuperset(run.nodes):
        return HeldSession()
    if ledger is not None and side.made(ledger.rows, "acquire").any():
        return HeldSession()
    every = Subscriptions.read(wire).of.get(process_of(side.client), [])
    keys = sorted(map(str, run.ops["key"].unique()), key=len, reverse=True)
    meant = ((one, {next((key for key in keys if key in channel), "") for channel in one.channels}) for one in every)
    own = [one for one, of in meant if side.key in of]
    held = [one for one in own if side.asked_from_ns <= one.sent_ns <= side.start_ns <= one.until_ns]
    if not held:
        return HeldSession()
    last = max(held, key=lambda one: one.until_ns)
    again = (one.sent_ns for one in own if one.channels == last.channels)
    anew_ns = min((sent_ns for sent_ns in again if last.until_ns < sent_ns < side.end_ns), default=FOREVER_NS)
    return HeldSession(last.until_ns, printable(last.channels[0]), anew_ns)
