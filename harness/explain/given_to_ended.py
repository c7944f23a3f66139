"""Keys that a request set on behalf of a call that had already ended without the lock, because its entry had stayed in
the queue."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from harness.explain.requests import client_of, how_sent
from harness.explain.words import at
from harness.history.ledger import Change
from harness.history.recorded import Recorded


class _GivenKey(NamedTuple):
    change: Change
    call: int
    kept_ns: int


def given_to_ended(run: Recorded, key: str, nodes: Collection[str], since_ns: int, until_ns: int) -> str | None:
    """`the lock was given to a call that had ended. c5's acquire had ended without the lock at +1.0 ms; later, c2 set
    the key for that call: in its acquire …`, if such keys stayed for most of the time; else None."""
    given = [one for one in _all(run, key, since_ns, until_ns) if str(one.change["node"]) in nodes]
    if 2 * sum(one.kept_ns for one in given) <= len(nodes) * (until_ns - since_ns):
        return None
    assert run.ledger is not None
    change, call, _ = max(given, key=lambda one: one.kept_ns)
    calls = run.ledger.calls
    times = f" ({len(given)} times)" if len(given) > 1 else ""
    ended = f"{calls.client[call]}'s acquire had ended without the lock at {at(run, int(calls.complete_ns[call]))}"
    by = f"another call of {calls.client[call]}" if client_of(change) == calls.client[call] else client_of(change)
    set_it = f"{by} set the key for that call: {how_sent(run, change)}"
    return f"the lock was given to a call that had ended{times}. {ended}; later, {set_it}"


def _all(run: Recorded, key: str, since_ns: int, until_ns: int) -> list[_GivenKey]:
    """What was set for calls that had ended by then, and for how long it stayed within this time."""
    if run.ledger is None:
        return []
    calls, found = run.ledger.calls, []
    for row, call in run.ledger.handed_over.items():
        if not calls.was_refused(call) or calls.key[call] != key:
            continue
        change = run.ledger.change(row)
        end = run.ledger.end_of_event(change["event"])
        if end is None or not calls.complete_ns[call] < change["from_client_ns"] <= until_ns:
            continue
        gone_ns = min(until_ns, end["since_ns"])
        if (kept_ns := gone_ns - max(since_ns, int(change["at_ns"]))) > 0:
            found.append(_GivenKey(change, call, kept_ns))
    return found
