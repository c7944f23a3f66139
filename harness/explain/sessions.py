"""How two clients came to be inside with a lock that promised no time: what became of the session of the first."""

from __future__ import annotations

from harness.explain.causes import Cause
from harness.explain.examples import Side
from harness.explain.words import at
from harness.history.fault_windows import FOREVER_NS
from harness.history.recorded import Recorded
from harness.history.session_ends import SessionEnds


def by_session(run: Recorded, earlier: Side, later: Side) -> tuple[str, Cause]:
    """A sentence and the cause. It is the lock's fault if the first client was told later that it held the lock."""
    ended_ns, meet_ns = _ended_ns(run, earlier), later.start_ns
    has_ended = ended_ns < meet_ns
    text = f"The lock promised no time to {earlier.client}. "
    if has_ended:
        text += f"The connection of its session was closed at {at(run, ended_ns)}, and "
    text += f"{later.client} entered at {at(run, meet_ns)}. "
    if earlier.deadline_min_ns >= meet_ns:
        until = at(run, earlier.deadline_min_ns)
        text += f"The lock told {earlier.client} afterwards that it had held the lock until {until}."
    elif has_ended:
        text += f"{earlier.client} need not have known that, and was not told that it still held the lock."
    else:
        text += f"When the session of {earlier.client} ended is not on record. The record allows both readings."
    return text, "ended session" if has_ended else "unknown"


def _ended_ns(run: Recorded, side: Side) -> int:
    connections = run.sessions()
    if connections is None:
        return FOREVER_NS
    return SessionEnds(connections, run.config.node_names).of(side.client, side.asked_from_ns, side.start_ns)
