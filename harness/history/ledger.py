"""The ledger of each node: every change of a key, and what made it.

A change belongs to the one request that the node can have acted on at that time, and that can have made it: it names
the key, its command can do this, and its reply does not say that it did nothing. If several can, the node's own order,
the order of each connection, and the other changes decide; if more than one is left, none is named. The only other
causes are expiry and a restart. Where the record of a node's requests is not whole, no cause is told at all.

Rows: the columns of `harness.history.key_changes`, and

cause            "request", "expiry", "restart"; "several": any of `candidates` requests; "none": no request on record
                 can have made it; "unseen": the node was not watched, and it is not known what happened; "not recorded"
candidates       how many requests can have made it
request          the place of the request in `requests.parquet`; -1 if it is not one
client, connection, by, command, reply, from_client_ns, to_node_ns, from_node_ns, to_client_ns
                 of the request, or what several have in common; times that never came are -1
call             the place of the call in `Ledger.calls` in which the client sent it, or which had ended last; or -1
f, outcome, task, life, section, invoke_ns, complete_ns   of that call
is_in_call       whether the request was sent in that call, not after it
owner            the row of the change that gave the key its owner: `of`, or this row if it sets the key; or -1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from harness.history.calls import NO_CALL, Calls
from harness.history.cause_search import Causes, find_causes
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Ints
from harness.history.key_changes import derive_changes
from harness.history.key_requests import KeyRequests, WireRecord, numbers_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from fencepost.history import KeyEvent
    from harness.history.recorded import Recorded

_NAMES: Final = ("client", "by", "command", "reply")
_OPTIONAL: Final = (
    "event",
    "of",
    "owner",
    "request",
    "connection",
    "from_client_ns",
    "to_node_ns",
    "from_node_ns",
    "to_client_ns",
    "life",
    "section",
    "invoke_ns",
    "complete_ns",
)
_TIMES: Final = ("from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns")


Change = Mapping[str, Any]
"""A row of the ledger, and its place as `row`."""


class Doer(NamedTuple):
    """A client, or a task of one, and for which of its sections and keys it called."""

    client: str
    section: int
    key: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """`rows`: the changes. `several`: each of the requests that can have made a change of which several can: the row of
    the `change`, the columns of the request and its call, and whether its reply says that it made such a change
    (`is_certain`) between `from_ns` and `to_ns`. `calls`: those of the clients. `recorded`: the nodes of whose requests
    none is missing."""

    rows: pd.DataFrame
    several: pd.DataFrame
    calls: Calls
    recorded: frozenset[str]
    _ends: dict[int, int] = field(default_factory=dict)

    def table(self) -> pd.DataFrame:
        """The rows for pandas: what is not known is missing."""
        numbers = {name: pd.Int64Dtype() for name in _OPTIONAL}
        rows = self.rows.drop(columns=["may_be", "call"]).astype(numbers)
        until_ns = rows["had_until_ns"].astype(pd.Int64Dtype())
        rows = rows.assign(had_until_ns=until_ns.mask(until_ns >= FOREVER_NS))
        return rows.assign(**{name: rows[name].mask(rows[name] < 0) for name in _OPTIONAL})

    def change(self, row: int) -> Change:
        found: dict[str, Any] = {str(name): value for name, value in self.rows.iloc[row].to_dict().items()}
        return found | {"row": row}

    def end_of_event(self, event: int) -> int | None:
        """The row in which the key ended that this event of the witness had set; None if it did not, or is not seen."""
        if not self._ends:
            rows = self.rows
            is_end = rows["what"].isin(["overwritten", "deleted", "expired", "lost"]).to_numpy(bool)
            of, number = rows["of"].to_numpy(np.int64), rows["event"].to_numpy(np.int64)
            self._ends.update((int(number[of[row]]), int(row)) for row in np.flatnonzero(is_end & (of >= 0)))
        return self._ends.get(event)

    def doers(self, keys: Container[str]) -> dict[int, Doer]:
        """By the witness's event, who made this change of one of the keys, in a call for a section."""
        names = ("event", "key", "by", "task", "section", "call")
        rows = zip(*(self.rows[name].tolist() for name in names), strict=True)
        return {
            event: Doer(task, section, str(self.calls.key[call]))
            for event, key, by, task, section, call in rows
            if by == "client" and task is not None and section >= 0 and event >= 0 and key in keys
        }

    @classmethod
    def of(cls, run: Recorded, events: Iterable[KeyEvent], wire: WireRecord) -> Ledger:
        changes, calls = derive_changes(events), Calls.of(run)
        nodes = list(changes["node"].cat.categories)
        keys = pd.Index(changes["key"].cat.categories)
        value, was, values = _values(changes)
        restarts = {
            str(node): np.unique(own["at_ns"].to_numpy(np.int64))
            for node, own in changes[changes["is_restarted"].to_numpy(bool)].groupby("node", observed=True)
        }
        requests = KeyRequests.of(wire, nodes, keys, values, restarts)
        windows = run.watched.watch_windows if run.watched is not None else pd.DataFrame()
        watched = {
            str(node): (own["from_ns"].to_numpy(np.int64), own["to_ns"].to_numpy(np.int64))
            for node, own in windows.groupby("node", observed=True)
        }
        causes = find_causes(changes, value, was, requests, watched)
        return cls(*_told(changes, causes, requests, wire, calls), calls, wire.recorded)


def _values(changes: pd.DataFrame) -> tuple[Ints, Ints, pd.Index]:
    """The codes of what each key held after each change and before it; -1 if it is not known, or was no text. And the
    values by their codes."""
    told = np.concatenate([changes["value"].to_numpy(object), changes["was"].to_numpy(object)])
    codes, values = pd.factorize(told)
    is_text = np.array([not value.startswith("0x") for value in values], bool)
    codes = np.where((codes >= 0) & np.append(is_text, False)[codes], codes, -1).astype(np.int64)
    return codes[: len(changes)], codes[len(changes) :], pd.Index(values, dtype=object)


def _told(
    changes: pd.DataFrame, causes: Causes, requests: KeyRequests, wire: WireRecord, calls: Calls
) -> tuple[pd.DataFrame, pd.DataFrame]:
    what = changes["what"].astype(str).to_numpy(object)
    node = changes["node"].astype(str).to_numpy(object)
    is_seen = changes["is_seen"].to_numpy(bool)
    count = causes.count
    cause = np.select(
        [
            what == "expired",
            ~np.isin(node, list(wire.recorded)),
            count == 1,
            count > 1,
            ~is_seen & changes["is_restarted"].to_numpy(bool),
            ~is_seen,
        ],
        ["expiry", "not recorded", "request", "several", "restart", "unseen"],
        "none",
    )
    cause = np.where(~is_seen & (cause == "request"), "unseen", cause)
    request = np.where(cause == "request", requests.row[causes.request] if len(requests.row) else -1, -1)
    rows = changes.assign(
        cause=pd.Categorical(cause), candidates=np.where(what == "expired", 0, count), request=request
    )
    change, pair = causes.pairs
    is_asked = np.isin(cause, ("request", "several"))[change]
    change, pair = change[is_asked], pair[is_asked]
    order = np.argsort(change, kind="stable")
    change, pair = change[order], pair[order]
    shared = _Shared(change, len(rows))
    candidates = _of_requests(requests.row[pair], wire.requests)
    of_each, is_in_each = _calls(candidates, changes["key"].to_numpy(object)[change], calls)
    columns = {name: shared.column(own) for name, own in candidates.items()}
    call, is_in_call = shared.column(of_each), shared.column(is_in_each) == 1
    is_set = np.isin(what, ("set", "overwritten"))
    owner = np.where(is_set, np.arange(len(rows)), changes["of"].to_numpy(np.int64))
    columns |= _of_calls(call, calls) | {"is_in_call": is_in_call, "owner": owner}
    rows = rows.assign(**{name: pd.Series(own, rows.index, own.dtype) for name, own in columns.items()})
    is_one = count[change] == 1
    several = {"change": change, "request": requests.row[pair], **candidates, **_of_calls(of_each, calls)}
    several |= {
        "is_in_call": is_in_each,
        "is_certain": requests.is_certain[pair] & (requests.can[pair] == changes["may_be"].to_numpy()[change]),
        "from_ns": requests.from_ns[pair],
        "to_ns": requests.to_ns[pair],
    }
    frame = {name: pd.Series(own[~is_one], dtype=own.dtype) for name, own in several.items()}
    return rows, pd.DataFrame(frame)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all the requests that can have made a change have in common. `change`: that of each of them, in order."""

    change: Ints
    changes: int

    def column(self, of_requests: Any) -> Any:
        """By change, the value; missing where they have several."""
        codes, values = pd.factorize(of_requests, use_na_sentinel=False)
        codes = codes.astype(np.int64)
        first, last = np.full(self.changes, len(values)), np.full(self.changes, -1)
        np.minimum.at(first, self.change, codes)
        np.maximum.at(last, self.change, codes)
        is_text = of_requests.dtype == object
        missing = None if is_text else -1
        if is_text:
            values = np.array([None if pd.isna(value) else value for value in values], object)
        found = np.full(self.changes, missing, object if is_text else np.int64)
        same = (first == last) & (last >= 0)
        found[same] = values[first[same]]
        return found


def _of_requests(request: Ints, table: pa.Table) -> dict[str, Any]:
    found: dict[str, Any] = {name: numbers_of(table[name], -1)[request] for name in (*_TIMES, "connection")}
    for name in _NAMES:
        texts = texts_of(table[name])
        found[name] = np.array([*texts.names, None], object)[texts.codes[request]]
    return found


def _calls(requests: dict[str, Any], key: Any, calls: Calls) -> tuple[Ints, Any]:
    client, sent = requests["client"], requests["from_client_ns"]
    call, is_in_call = np.full(len(client), NO_CALL), np.zeros(len(client), bool)
    by_client = requests["by"] == "client"
    for process in dict.fromkeys(client[by_client].tolist()):
        own = np.flatnonzero(by_client & (client == process))
        call[own], is_in_call[own] = calls.at(str(process), sent[own], key[own])
    return call, is_in_call


def _of_calls(call: Ints, calls: Calls) -> dict[str, Any]:
    known = call != NO_CALL
    found: dict[str, Any] = {"call": call}
    for name, column in (("f", calls.f), ("outcome", calls.outcome), ("task", calls.client)):
        texts = np.full(len(call), None, object)
        texts[known] = column[call[known]]
        found[name] = texts
    for name in ("life", "section", "invoke_ns", "complete_ns"):
        numbers = np.full(len(call), -1, np.int64)
        numbers[known] = getattr(calls, name)[call[known]]
        found[name] = numbers
    return found
