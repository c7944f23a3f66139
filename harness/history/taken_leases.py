"""Leases without a promised time whose entries another client's request took out.

Such a lease ends when its client gives it back, or when the client's session ends. Where the lock keeps an entry for
each client that is inside, and each release takes its own out, no request of another client may do so. If one does, the
client still holds the lock as far as it can know, until it leaves.

That is certain if nothing else may have ended its session: no fault was in force on the client, on its links or on the
node from when the entry was put there until it was taken out, and no key of the client expired meanwhile, by which it
may have shown that it was alive. What takes out whatever is too old says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from fencepost.history import process_of
from harness.history.fault_windows import longest_windows
from harness.history.places_taken import is_given_back

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded

_TAKE_ONE: Final = ("LPOP", "RPOP", "LREM", "SREM", "HDEL", "ZREM")


def with_taken_leases(run: Recorded) -> Recorded:
    """The run with these leases as ones that lasted until their clients left."""
    if not run.is_open_ended or not run.is_exclusive or (ledger := run.whole_ledger) is None:
        return run
    taken = sorted(set(_taken(run, ledger)))
    if not taken:
        return run
    sections = run.sections.copy(deep=False)
    deadline = sections["deadline_min_ns"].to_numpy(np.int64).copy()
    deadline[taken] = np.maximum(deadline[taken], sections["end_ns"].to_numpy(np.int64)[taken])
    sections["deadline_min_ns"] = deadline
    return replace(run, sections=sections)


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
    is_request = end["cause"] == "request" and end["by"] == "client" and end["did"] in _TAKE_ONE
    return bool(is_request and end["client"] not in (None, process_of(str(put["client"]))))


def _may_have_ended(run: Recorded, ledger: Ledger, put: Change, end: Change) -> bool:
    """Whether something else may have ended the client's session by then."""
    since_ns, until_ns, client = int(put["from_client_ns"]), int(end["at_ns"]), str(put["client"])
    for event, began, done in longest_windows(run.faults):
        hit = {*map(process_of, event.hit_clients)}
        if began < until_ns and done > since_ns and (client in hit or put["node"] in event.hit_nodes):
            return True
    rows = ledger.rows
    expired = (rows["what"] == "expired") & rows["at_ns"].between(since_ns, until_ns) & (rows["of"] >= 0)
    setters = rows["of"].to_numpy(np.int64)[expired.to_numpy(bool)]
    return bool((rows["client"].to_numpy(object)[setters] == client).any())
