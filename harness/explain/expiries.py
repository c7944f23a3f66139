"""Keys that expired: the time to live that the requests on record gave a key, and whether it ran out before the lease
ended, or before a client that waited was let in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from fencepost.quorum import quorum
from fencepost.text import printable
from harness.explain.evidence import Evidence
from harness.explain.examples import Side
from harness.explain.requests import changes_where
from harness.explain.witnessed import NodeEvent
from harness.explain.words import at
from harness.history.commands import RENEW, SET
from harness.history.ledger import Change, Ledger
from harness.history.recorded import Recorded

_UNITS: Final = {"PX": 1, "EX": 1_000}
_AT: Final = {"PSETEX": (1, 1), "SETEX": (1, 1_000), "PEXPIRE": (1, 1), "EXPIRE": (1, 1_000)}
"""The place of the time to live after the command, and its unit in milliseconds."""
_GIVE: Final = (*RENEW, "GETEX", "SET", "RESTORE")
_ROUNDED_NS: Final = 1_000_000


class GivenTtl(NamedTuple):
    """`over_ns`: by when the key has certainly expired. `command`: of the request that gave it the time to live."""

    ttl_ms: float
    lease_ms: float
    over_ns: int
    command: str


def ttl_given(words: Sequence[str]) -> int | None:
    """The time to live in milliseconds that a request gives its key; None if that is not in its words."""
    command, *arguments = words
    place, unit = _AT.get(command.upper(), (0, 0))
    if command.upper() == "SET":
        options = [word.upper() for word in arguments[2:]]
        place, unit = next(((2 + at + 1, _UNITS[one]) for at, one in enumerate(options) if one in _UNITS), (0, 0))
    if not unit or place >= len(arguments) or not arguments[place].isdecimal():
        return None
    return int(arguments[place]) * unit


def too_short(run: Recorded, evidence: Evidence, granted: NodeEvent, side: Side, by_ns: int) -> GivenTtl | None:
    """The last time to live that the key of this grant was given until then, if it is shorter than the lease that the
    client had asked for, and that the lock told, and if the key was over by it by then, within the lease. None where
    that is not on record, and where the clock of the node was wrong."""
    last = _last_given(evidence, granted, by_ns)
    ttl_ms = None if last is None else _ttl_of(evidence, last)
    if last is None or ttl_ms is None:
        return None
    lease_ms = side.validity_ms if side.validity_ms and not side.extensions else run.lease_ms
    over_ns = int(last["at_ns"]) + ttl_ms * 1_000_000 + _ROUNDED_NS
    is_shorter = ttl_ms + 1 < min(lease_ms, run.lease_ms) and over_ns < side.deadline_min_ns
    is_over = over_ns <= by_ns or _was_seen_to_expire(evidence, granted)
    if not is_shorter or not is_over or run.wrong_clocks.touch(granted.node, granted.after_ns, by_ns):
        return None
    return GivenTtl(ttl_ms, lease_ms, over_ns, str(last["command"]))


def _was_seen_to_expire(evidence: Evidence, granted: NodeEvent) -> bool:
    ledger, seen = evidence.ledger, evidence.set_of(granted)
    end = None if ledger is None or seen is None or seen.order is None else ledger.end_of_event(seen.order)
    return end is not None and end["what"] == "expired"


def given_ttl(evidence: Evidence, granted: NodeEvent, by_ns: int) -> int | None:
    """The last time to live in milliseconds that the key of this grant was given until then; None if that is not on
    record."""
    last = _last_given(evidence, granted, by_ns)
    return None if last is None else _ttl_of(evidence, last)


def _ttl_of(evidence: Evidence, change: Change) -> int | None:
    request = None if evidence.wire is None or change["request"] < 0 else evidence.wire.at(int(change["request"]))
    return None if request is None else ttl_given(request.words)


def _last_given(evidence: Evidence, granted: NodeEvent, by_ns: int) -> Change | None:
    seen = evidence.set_of(granted)
    if seen is None or seen.order is None or evidence.ledger is None:
        return None
    rows = evidence.ledger.rows
    (own,) = np.flatnonzero((rows["event"] == seen.order).to_numpy(bool))
    more = (rows["of"] == own) & (rows["what"] == "prolonged") & (rows["since_ns"] <= by_ns)
    return evidence.ledger.change(int(np.append(own, np.flatnonzero(more.to_numpy(bool)))[-1]))


def was_over_at_once(change: Change) -> bool:
    """Whether the key was deleted because it was given a time to live that was over already."""
    return change["what"] == "deleted" and change["did"] in _GIVE


def lived_ms(ledger: Ledger, change: Change) -> float | None:
    """For how long at most there was what a SET had put over a key, if it expired before it could be read; None if that
    is not what happened to it."""
    gone = ledger.end_of_event(change["event"]) if change["what"] == "overwritten" else None
    if gone is None or change["value"] is not None or change["did"] not in SET or gone["what"] != "expired":
        return None
    return float((gone["at_ns"] - change["since_ns"]) / 1e6)


def over_at_once(run: Recorded, change: Change) -> str:
    """What the request did that gave the key a time to live which was over at once."""
    lived = None if run.ledger is None else lived_ms(run.ledger, change)
    if lived is None:
        return "gave it a TTL that was over at once, which deleted it"
    return f"set it anew with a TTL of at most {lived:,.0f} ms"


def expired_waiting(run: Recorded, side: Side) -> str:
    """`What c9 had set in this acquire, k1/a3f0 on n1, had expired by +2,615.1 ms.`; empty unless that was so on a
    majority of the nodes before the client was let in, and nothing else was left that the acquire had set."""
    ledger = run.ledger
    if ledger is None:
        return ""
    rows = ledger.rows
    own = (
        side.made(rows, "acquire") & (rows["what"] == "set") & rows["is_in_call"] & (rows["since_ns"] <= side.start_ns)
    )
    ends = [ledger.end_of_event(change["event"]) for change in changes_where(ledger, own)]
    gone = [one for one in ends if one is not None and one["what"] == "expired" and one["at_ns"] < side.start_ns]
    nodes = {str(one["node"]) for one in gone}
    if not gone or len(gone) < len(ends) or len(nodes) < quorum(len(run.nodes)):
        return ""
    last = max(gone, key=lambda one: int(one["at_ns"]))
    return (
        f"What {printable(side.client)} had set in this acquire, {printable(str(last['key']))} on {last['node']}, had "
        f"expired by {at(run, int(last['at_ns']))}."
    )
