"""For how long leases without a promised time certainly lasted.

Such a lease ends when its client gives it back, or when the client's session ends. None ends by itself so soon: it
lasts until the time-out that the client had asked for, a TTL, is over since the grant, if nothing may have ended it
until then. So it is if no fault was in force on the client, on its links or on any node, from a TTL or a second before
the grant on; if no connection of the client was closed, where that is on record; and if the lock did not say that it
was lost.

Where the lock keeps an entry for each client that is inside, and each release takes its own out, no request of another
client may do so. If one does, the client still holds the lock as far as it can know, until it leaves. That is certain
if nothing else may have ended its session from when the entry was put there until it was taken out; what takes out
whatever is too old says nothing.

Nor is anything said of a client of which a key expired meanwhile, by which it may have shown that it was alive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.history import process_of
from harness.history.commands import POP, REMOVE
from harness.history.groups import Ints, columns_of, rows_of, where
from harness.history.places_taken import is_given_back
from harness.history.sessions import closed_connections
from harness.history.waits import SECOND_NS, Span

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded


def with_open_ended_leases(run: Recorded) -> Recorded:
    """The run with these leases as ones that lasted for so long."""
    if not run.is_open_ended or not run.is_exclusive:
        return run
    sections = run.sections.copy(deep=False)
    deadline = np.maximum(sections["deadline_min_ns"].to_numpy(np.int64), calm_until_ns(run))
    if (ledger := run.whole_ledger) is not None:
        taken = sorted(set(_taken(run, ledger)))
        deadline[taken] = np.maximum(deadline[taken], sections["end_ns"].to_numpy(np.int64)[taken])
    sections["deadline_min_ns"] = deadline
    return replace(run, sections=sections)


def calm_until_ns(run: Recorded) -> Ints:
    """By section, until when nothing may have ended its session, a TTL after the grant at most; 0 if something may have
    before."""
    sections, ttl_ns = run.sections, round(run.config.ttl_ms * 1e6)
    start, end = columns_of(sections, "start_ns", "end_ns")
    since, until = start - max(ttl_ns, SECOND_NS), np.minimum(end, start + ttl_ns)
    process = sections["client"].map(process_of).to_numpy(object)
    for client in np.unique(process).tolist():
        own = np.flatnonzero(process == client)
        for began, done in _disturbed(run, client):
            met = own[(began < until[own]) & (done > since[own])]
            until[met] = np.minimum(until[met], max(began, 0))
    for *owner, at_ns in rows_of(run.calls("held", "fail"), "client", "life", "section", "invoke_ns"):
        if (place := run.places.get(tuple(owner))) is not None:
            until[place] = min(until[place], at_ns)
    return np.where(until > start, until, 0)


def _disturbed(run: Recorded, client: str) -> Iterator[Span]:
    """When something may have ended a session of this client process."""
    for event, began, done in run.fault_windows:
        if event.hit_nodes or event.apart or client in map(process_of, event.hit_clients):
            yield began, done
    yield from run.waits_of(client)
    if (connections := run.sessions()) is None and (wire := run.wire()) is not None:
        connections = wire.connections
    if connections is not None:
        own = pc.and_(pc.equal(connections["client"], client), pc.is_in(connections["node"], pa.array(run.nodes)))
        for times in closed_connections(connections.filter(own)).values():
            yield from ((at_ns, at_ns + 1) for at_ns in times)
    if (ledger := run.whole_ledger) is not None:
        yield from _expired(ledger, client)


def _expired(ledger: Ledger, client: str) -> Iterator[Span]:
    """When a key expired that the client had set."""
    rows = ledger.rows
    expired = where(rows, rows["of"] >= 0, what="expired")
    setters = rows["client"].to_numpy(object)[expired["of"].to_numpy(np.int64)]
    yield from rows_of(expired[setters == client], "since_ns", "at_ns")


def _taken(run: Recorded, ledger: Ledger) -> Iterator[int]:
    """The places of the sections."""
    told = [(one, ledger.change(one.added), ledger.change(one.ended)) for one in ledger.entries if one.ended >= 0]
    released = Counter(
        (one.node, one.key, is_given_back(ledger, one, put)) for one, put, end in told if end["f"] == "release"
    )
    start_ns, end_ns = (run.sections[name].tolist() for name in ("start_ns", "end_ns"))
    for entry, put, end in told:
        place = run.places.get((put["task"], put["life"], put["section"]))
        own, others = (released[entry.node, entry.key, is_own] for is_own in (True, False))
        if place is None or own <= others or put["f"] != "acquire" or put["outcome"] != "ok":
            continue
        is_inside = start_ns[place] <= end["to_node_ns"] and end["from_node_ns"] < end_ns[place]
        if is_inside and _is_anothers(put, end) and not _may_have_ended(run, ledger, put, end):
            yield place


def _is_anothers(put: Change, end: Change) -> bool:
    """Whether a request of another process took out this one entry."""
    is_request = end["cause"] == "request" and end["by"] == "client" and end["did"] in (*REMOVE, *POP)
    return bool(is_request and end["client"] not in (None, process_of(str(put["client"]))))


def _may_have_ended(run: Recorded, ledger: Ledger, put: Change, end: Change) -> bool:
    """Whether something else may have ended the client's session by then."""
    since_ns, until_ns, client = int(put["from_client_ns"]), int(end["at_ns"]), str(put["client"])
    for event, began, done in run.fault_windows:
        hit = {*map(process_of, event.hit_clients)}
        if began < until_ns and done > since_ns and (client in hit or put["node"] in event.hit_nodes):
            return True
    return any(began < until_ns and done > since_ns for began, done in _expired(ledger, client))
