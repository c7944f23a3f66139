"""The session by which a client held a lock without a lease time, and how that session ended."""

from __future__ import annotations

from typing import NamedTuple

from fencepost.history import process_of
from fencepost.text import printable
from harness.explain.examples import Side
from harness.history.fault_windows import FOREVER_NS
from harness.history.recorded import Recorded
from harness.history.session_ends import SessionEnds
from harness.history.subscriptions import Subscriptions


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
