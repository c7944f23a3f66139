"""Keys that one client set on behalf of another: a lock that passes itself to the next client in its queue.

The value says for whom. The request that set it does not contain it, because the script found it in the queue; and only
one client has ever sent it, in an acquire. So it is if the script made the value of what it found and of a number, say,
and what it found was sent in acquires for a single section. The key is that client's from then on. It may be the same
client, if the acquire that had sent the value was over without the lock: its entry had stayed in the queue. If nothing
read the value before it was gone, a script that hands keys over elsewhere may have set it for any client.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Set
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from harness.history.calls import GRANTS, NO_CALL, Calls
from harness.history.commands import RUN_SCRIPTS
from harness.history.groups import rows_of, where, which
from harness.history.key_changes import SETS

if TYPE_CHECKING:
    from harness.history.change_causes import WireRecord

_BETWEEN: Final = re.compile(r"[^0-9A-Za-z_-]+")
_LEAST_LETTERS: Final = 8


def handed_over(rows: pd.DataFrame, calls: Calls, wire: WireRecord) -> dict[int, int]:
    """By row of a ledger that set a key for another client: the place of the call in which that client had asked for
    it; NO_CALL where that is not known."""
    values = _values(rows)
    request = rows["request"].to_numpy(np.int64)[list(values)]
    said = dict(zip(values, wire.requests["arguments"].take(pa.array(request)).to_pylist(), strict=True))
    unsaid = {
        row: value
        for row, value in values.items()
        if value is not None and value not in said[row] and not value.lstrip("-").isdigit()  # a count is no name
    }
    parts = {value: _parts(value) for value in unsaid.values()}
    words = {part for some in parts.values() for part in some}
    receivers = _receivers(parts.keys() | words, words, calls, wire) if unsaid else {}
    asked = {
        row: receivers[word]
        for row, value in unsaid.items()
        for word in [one for one in (value, *parts[value]) if one in receivers and one not in said[row]][:1]
    }
    # A client that holds the lock may write its own value anew: how often it has acquired it, say.
    setters, sent_ns = rows["client"].tolist(), rows["from_client_ns"].tolist()
    found = {
        row: call
        for row, (client, call) in asked.items()
        if client != setters[row] or (calls.was_refused(call) and calls.complete_ns[call] < sent_ns[row])
    }
    commands = rows["command"].tolist()
    scripts = {said[row][0] for row in found if commands[row] in RUN_SCRIPTS}
    unread = (row for row, value in values.items() if value is None and commands[row] in RUN_SCRIPTS)
    return found | {row: NO_CALL for row in unread if said[row][0] in scripts}


def _values(rows: pd.DataFrame) -> dict[int, str | None]:
    """By row in which a client's request set a key: its value, or else what was read when the key was prolonged."""
    is_told = rows["value"].notna().to_numpy(bool)
    found = dict(rows_of(where(rows, is_told, what="prolonged"), "of", "value"))
    places = np.flatnonzero(which(rows, rows["request"] >= 0, what=SETS, cause="request", by="client")).tolist()
    values = rows["value"].tolist()
    return {row: values[row] if is_told[row] else found.get(row) for row in places}


def _parts(value: str) -> list[str]:
    """Of a value like `d0887313:12`, the words that are long enough to be a name."""
    parts = _BETWEEN.split(value)
    return [part for part in parts if len(part) >= _LEAST_LETTERS] if len(parts) > 1 else []


def _receivers(values: Set[str], once: Set[str], calls: Calls, wire: WireRecord) -> dict[str, tuple[str, int]]:
    """By value that only one client has ever sent, in an acquire at first: the client and that call, or NO_CALL if
    several of its tasks had one under way. Acquires for a single section must have sent what is to be sent `once`."""
    words = wire.requests["arguments"].combine_chunks()
    flat, request = pc.list_flatten(words), pc.list_parent_indices(words)
    is_one = pc.is_in(flat, pa.array(sorted(values), flat.type))
    some = wire.requests.select(["client", "task", "by", "from_client_ns"]).take(request.filter(is_one))
    senders: defaultdict[str, set[str]] = defaultdict(set)
    first: dict[str, tuple[int, str | None]] = {}
    sent: defaultdict[str, list[tuple[int, str | None]]] = defaultdict(list)
    columns = (some[name].to_pylist() for name in ("client", "task", "by", "from_client_ns"))
    for value, client, task, by, sent_ns in zip(flat.filter(is_one).to_pylist(), *columns, strict=True):
        if by == "client" and sent_ns is not None:
            senders[value].add(client)
            first[value] = min(first.get(value, (sent_ns, task)), (sent_ns, task))
            if value in once:
                sent[value].append((sent_ns, task))
    found = {}
    for value, clients in senders.items():
        if len(clients) == 1:
            (client,) = clients
            sent_ns, task = first[value]
            (call,), (is_inside,) = calls.at(client, np.array([sent_ns]), [""], np.array([task], object))
            is_asked = is_inside and (call == NO_CALL or calls.f[call] in GRANTS)
            if is_asked and (value not in once or _is_of_one_section(calls, client, sent[value])):
                found[value] = client, int(call)
    return found


def _is_of_one_section(calls: Calls, client: str, sent: list[tuple[int, str | None]]) -> bool:
    times, tasks = zip(*sent, strict=True)
    found, is_inside = calls.at(client, np.array(times), [""] * len(sent), np.array(tasks, object))
    own = found[is_inside & (found != NO_CALL)]
    asked = own[np.isin(calls.f[own].astype(str), list(GRANTS))]
    return len({(calls.client[call], int(calls.life[call]), int(calls.section[call])) for call in asked.tolist()}) == 1
