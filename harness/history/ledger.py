"""The ledger of each node: every change of a key, and its cause.

The node itself names the request (`cluster.key_causes`), and the record of the links knows who sent it, when it arrived
and what was answered (`harness.history.change_causes`). The only other causes are expiry, eviction and a restart. Where
the record of a node's requests is not whole, no cause is told at all.

Rows: the columns of `harness.history.key_changes`, and

cause            "request", "expiry", "eviction", "restart"; "none": no request on record made it; "unseen": the node
                 was not watched, and it is not known what happened; "not recorded"
request          the place of the request in `requests.parquet`; -1 if it is not one, or one of several of the same
                 words on the same connection
client, connection, by, command, reply, from_client_ns, to_node_ns, from_node_ns, to_client_ns
                 of the request; times that never came are -1
call             the place of the call in `Ledger.calls` in which the client sent it, or which had ended last; or -1
f, outcome, task, life, section, invoke_ns, complete_ns   of that call
                 (or one that needs this request: `harness.history.late_releases`)
sender           the task of a client process that sent the request, as the process noted it (`workloads.senders`)
is_in_call       whether the request was sent in that call, not after it
owner            the row of the change that gave the key its owner: `of`, or this row if it sets the key; or -1
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.history import process_of
from harness.history.calls import GRANTS, NO_CALL, Calls
from harness.history.change_causes import NONE, ChangeRequests, WireRecord, find_causes
from harness.history.commands import LOOK
from harness.history.entries import Entry, all_entries, keys_with_entries
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Ints, rows_of, where
from harness.history.handed_over import handed_over
from harness.history.key_changes import ENDINGS, SETS, derive_changes
from harness.history.late_releases import late_releases
from harness.history.link_activity import Links
from harness.history.node_requests import NodeRequests, names_in, names_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from fencepost.history import KeyEvent
    from harness.history.run_tables import RunTables

_OF_CONNECTION: Final = ("client", "by")
_TEXTS: Final = ("command", "reply", "task")
_TIMES: Final = ("from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns")
_OF_CALL: Final = ("life", "section", "invoke_ns", "complete_ns")
_OPTIONAL: Final = ("event", "of", "owner", "request", "connection", *_TIMES, *_OF_CALL)
_OPPOSITE: Final = {"INCRBY": "DECRBY", "DECRBY": "INCRBY"}
_SHORT_REPLY: Final = 8
"""It names nothing that is anyone's."""
_INTERNAL: Final = ("port", "digest", "place", "call", "arguments", "until_ns", "sender")
"""The columns that are not for users."""

Change = Mapping[str, Any]
"""A row of the ledger, and its place as `row`."""


class Doer(NamedTuple):
    """A client, or a task of one, and for which of its sections and keys it called."""

    client: str
    section: int
    key: str


@dataclass(frozen=True)
class Ledger:
    """`rows`: the changes. `calls`: those of the clients. `wire`: what went over the links. `handed_over`: by row
    that set a key for another client than the one that asked for it, that client's call; NO_CALL if that is not
    known."""

    rows: pd.DataFrame
    calls: Calls
    wire: WireRecord
    handed_over: Mapping[int, int] = field(default_factory=dict)
    blind_ns: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By node, when it went out of the witness's sight, in order, but for the end of the record."""

    @cached_property
    def sent(self) -> NodeRequests:
        return NodeRequests(self.wire)

    @cached_property
    def links(self) -> Links:
        return Links(self.wire)

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """What lists, sets, sorted sets and hashes held, key by key: what ended, in order, then what stayed."""
        own = where(self.rows, key=keys_with_entries(self.rows))
        return all_entries(own, self.arguments(own), self.blind_ns)

    def arguments(self, rows: pd.DataFrame) -> list[list[str] | None]:
        """By change, the arguments of the command that made it; None if they are not on record."""
        # INCRBY by a negative number lowers a count, and is told as DECRBY.
        is_number = rows["did"].isin(list(_OPPOSITE)) & rows["command"].isin(list(_OPPOSITE))
        is_own = ((rows["did"] == rows["command"]) | is_number).to_numpy(bool) & (rows["request"] >= 0).to_numpy(bool)
        request = pa.array(rows["request"].to_numpy(np.int64), mask=~is_own)
        asked = self.wire.requests["arguments"].take(request).to_pylist()
        return [own or by_script for own, by_script in zip(asked, rows["arguments"].tolist(), strict=True)]

    def drew_it_too(self, change: Change) -> bool:
        """Whether the client (or its task, if that is known) whose request made this change had named the key's value
        to that node in an earlier acquire, and none of the node's answers to it had shown the value before: so it
        cannot have read what it then compared with. If the change itself does not name the value, the earlier request
        was for the same key."""
        value, node, sent = change["was"], str(change["node"]), self.sent
        if not value or change["client"] is None or change["by"] != "client" or change["request"] < 0:
            return False
        if not sent.compared(change) or self.is_copy(int(change["of"])):
            return False
        client, is_named = str(change["sender"] or process_of(change["client"])), sent.names_value(change)
        for one in sent.between(client, node, 0, int(change["from_client_ns"])):
            if one.from_client_ns == change["from_client_ns"]:
                continue
            if (
                value in one.arguments
                and (is_named or change["key"] in one.keys)
                and self._is_acquiring(client, one.from_client_ns)
            ):
                return True
            if one.reply is not None and value in one.reply:
                return False
        return False

    def is_copy(self, row: int) -> bool:
        """Whether the client that set a key had read its value on that node before it ever named it: it is another
        one's, to whom the key was not handed over. Short values, such as numbers, are no one's."""
        return row in self._copies

    @cached_property
    def copied_events(self) -> frozenset[int]:
        """The witness's, by which keys were set that are copies."""
        return frozenset(self.rows["event"].loc[list(self._copies)].tolist())

    @cached_property
    def _copies(self) -> frozenset[int]:
        rows = where(self.rows, self.rows["request"] >= 0, what=SETS)
        senders = rows["sender"].where(rows["sender"].notna(), rows["client"])
        columns = zip(rows.index.tolist(), senders, rows["node"].astype(str), rows["value"].tolist(), strict=True)
        set_by: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)
        for row, client, node, value in columns:
            if isinstance(value, str) and isinstance(client, str) and row not in self.handed_over:
                set_by[client, node][row] = value
        return frozenset(
            row
            for (client, node), own in set_by.items()
            for read in [self._read_first(client, node, {*own.values()})]
            for row, value in own.items()
            if value in read
        )

    def _read_first(self, client: str, node: str, values: set[str]) -> set[str]:
        """Those of the values that the node had shown to the client before it named them itself. What a request took
        out, as an element of a list, is the client's own from then on."""
        named, read = set[str](), set[str]()
        for one in self.sent.between(client, node, 0, FOREVER_NS):
            named |= values.intersection(one.arguments) - read
            is_look = one.command in LOOK or one.command == "GETSET"
            if is_look and one.reply is not None and len(one.reply) > _SHORT_REPLY:
                read |= values & names_of(one.reply) - named
        return read

    def _is_acquiring(self, client: str, at_ns: int) -> bool:
        """Whether the client, or any task of the process, was acquiring then."""
        calls, process = self.calls, process_of(client)
        under_way = calls.under_way(process, at_ns)
        return any(calls.f[one] in GRANTS and client in (process, calls.client[one]) for one in under_way)

    @cached_property
    def nodes_of(self) -> Mapping[str, set[str]]:
        """By key, the nodes to which a request was sent that names it."""
        names, nodes = self.wire.requests["keys"].combine_chunks(), self.wire.requests["node"].cast(pa.string())
        table = pa.table({"name": pc.list_flatten(names), "node": nodes.take(pc.list_parent_indices(names))})
        each = table.group_by(["name", "node"]).aggregate([]).to_pylist()
        meant, found = self.calls.meant_by(row["name"] for row in each), defaultdict[str, set[str]](set)
        for row in each:
            for key in meant[row["name"]]:
                found[key].add(row["node"])
        return found

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The rows, column by column."""
        return {str(name): self.rows[name].tolist() for name in self.rows}

    @cached_property
    def _ends(self) -> dict[int, int]:
        rows = self.rows
        is_end = rows["what"].isin(list(ENDINGS)).to_numpy(bool)
        of, number = rows["of"].to_numpy(np.int64), rows["event"].to_numpy(np.int64)
        return {int(number[of[row]]): int(row) for row in np.flatnonzero(is_end & (of >= 0))}

    def table(self) -> pd.DataFrame:
        """The rows for pandas: what is not known is missing."""
        numbers = {name: pd.Int64Dtype() for name in _OPTIONAL}
        rows = self.rows.drop(columns=list(_INTERNAL)).astype(numbers)
        until_ns = rows["had_until_ns"].astype(pd.Int64Dtype())
        rows = rows.assign(had_until_ns=until_ns.mask(until_ns >= FOREVER_NS))
        return rows.assign(**{name: rows[name].mask(rows[name] < 0) for name in _OPTIONAL})

    @cached_property
    def row_of(self) -> dict[int, int]:
        """By event of the witness."""
        return {event: row for row, event in enumerate(self.columns["event"]) if event >= 0}

    def change(self, row: int) -> Change:
        return {name: values[row] for name, values in self.columns.items()} | {"row": row}

    def is_beside_its_call(self, change: Change, client: str) -> bool:
        """Whether the client, which sent the request of this change during a call, asked the node for the key over
        other connections in that call, and not with this value: the request was sent in the background."""
        of = str(change["node"]), int(change["invoke_ns"]), int(change["complete_ns"])
        asked = [one for one in self.sent.between(client, *of) if change["key"] in one.keys]
        others = {one.connection for one in asked if change["value"] not in one.arguments}
        return change["value"] is not None and bool(others) and change["connection"] not in others

    def end_of_event(self, event: int) -> Change | None:
        """How the key ended that this event of the witness had set; None if it did not, or that is not seen."""
        row = self._ends.get(event)
        return None if row is None else self.change(row)

    def doers(self, keys: Container[str]) -> dict[int, Doer]:
        """By the witness's event, who made this change of one of the keys, in a call for a section."""
        rows = rows_of(where(self.rows, by="client"), "event", "key", "task", "section", "call")
        return {
            event: Doer(task, section, str(self.calls.key[call]))
            for event, key, task, section, call in rows
            if task is not None and section >= 0 and event >= 0 and key in keys
        }

    @classmethod
    def of(cls, run: RunTables, events: Iterable[KeyEvent], wire: WireRecord) -> Ledger:
        changes, calls = derive_changes(events), Calls.of(run)
        rows = _told(changes, find_causes(changes, wire), wire, calls)
        for row, call in late_releases(rows, calls, wire).items():
            own = {name: column[0] for name, column in _of_calls(np.array([call]), calls).items()}
            rows.loc[row, [*own, "is_in_call"]] = [*own.values(), False]
        windows = {} if run.watched is None else run.watched.windows
        blind_ns = {node: [window.to_ns for window in own[:-1]] for node, own in windows.items()}
        return cls(rows, calls, wire, handed_over(rows, calls, wire), blind_ns)


def _told(changes: pd.DataFrame, causes: ChangeRequests, wire: WireRecord, calls: Calls) -> pd.DataFrame:
    what = changes["what"].astype(str).to_numpy(object)
    is_seen, is_restarted = (changes[name].to_numpy(bool) for name in ("is_seen", "is_restarted"))
    is_asked = is_seen & (causes.connection != NONE)
    cause = np.select(
        [
            what == "expired",
            what == "evicted",
            ~np.isin(changes["node"].astype(str).to_numpy(object), list(wire.recorded)),
            is_asked,
            ~is_seen & is_restarted,
            ~is_seen,
        ],
        ["expiry", "eviction", "not recorded", "request", "restart", "unseen"],
        "none",
    )
    is_asked = cause == "request"
    request = np.where(is_asked, causes.request, NONE)
    what, of = _kept(what, changes, request, wire)
    columns = _of_requests(request, np.where(is_asked, causes.connection, NONE), wire)
    call, is_in_call = _calls(columns, changes["key"].to_numpy(object), calls, are_noted=wire.notes_tasks)
    owner = np.where(np.isin(what, SETS), np.arange(len(what)), of)
    columns["sender"] = columns.pop("task")
    columns = {"request": request, **columns, **_of_calls(call, calls), "is_in_call": is_in_call, "owner": owner}
    columns["did"] = _did(changes, columns["command"], request, wire)
    columns = {name: pd.Series(own, changes.index, own.dtype) for name, own in columns.items()}
    return changes.assign(what=pd.Categorical(what), of=of, cause=pd.Categorical(cause), **columns)


def _did(changes: pd.DataFrame, command: Any, request: Ints, wire: WireRecord) -> Any:
    """The command that made each change: one that raises a count by a negative number lowers it."""
    did: Any = changes["did"].to_numpy(object, copy=True)
    rows = np.flatnonzero(changes["did"].isin(list(_OPPOSITE)).to_numpy(bool))
    is_scripted = (request[rows] == NONE) | (did[rows] != command[rows])
    asked = wire.requests["arguments"].take(pa.array(request[rows], mask=is_scripted)).to_pylist()
    by_script = changes["arguments"].iloc[rows].tolist()
    for row, own, called in zip(rows.tolist(), asked, by_script, strict=True):
        words = own or called
        if words and str(words[-1]).startswith("-"):
            did[row] = _OPPOSITE[did[row]]
    return did


def _kept(what: Any, changes: pd.DataFrame, request: Ints, wire: WireRecord) -> tuple[Any, Ints]:
    """What happened, and to which row's key. A value set over another one may keep a name that the other one had, and
    that its own request does not have: then the key was changed, like a hash that gets another field. So may the unread
    values of such a lock."""
    of, what = changes["of"].to_numpy(np.int64), what.copy()
    over = np.flatnonzero((what == "overwritten") & (of >= 0) & (request != NONE))
    if not len(over):
        return what, of
    said = names_in(wire.requests, request[(setting := np.flatnonzero(np.isin(what, SETS)))])
    named = [set().union(*map(names_of, words)) for words in said]
    every, own = set[str]().union(*named), dict(zip(setting.tolist(), named, strict=True))
    held = zip(over.tolist(), *(changes[name].iloc[over].tolist() for name in ("value", "was")), strict=True)
    keeps = {
        row: bool(names_of(value) & names_of(was) & every - own[row])
        for row, value, was in held
        if value is not None and was is not None
    }
    root = np.arange(len(of))
    for row in over.tolist() if any(keeps.values()) else ():
        if keeps.get(row, True):
            what[row], root[row] = "changed", root[of[row]]
    return what, np.where(of < 0, of, root[of])


def _of_requests(request: Ints, connection: Ints, wire: WireRecord) -> dict[str, Any]:
    """By change, what is known of its request; -1 or missing where there is none."""

    def taken(table: pa.Table, name: str, row: Ints) -> Any:
        return table[name].take(pa.array(row, mask=row == NONE))

    found: dict[str, Any] = {
        name: taken(wire.requests, name, request).fill_null(NONE).to_numpy().astype(np.int64) for name in _TIMES
    }
    numbers = taken(wire.connections, "connection", connection).fill_null(NONE)
    found["connection"] = numbers.to_numpy().astype(np.int64)
    for table, row, names in ((wire.connections, connection, _OF_CONNECTION), (wire.requests, request, _TEXTS)):
        for name in names:
            texts = taken(table, name, row)
            found[name] = np.array([*texts.cast(pa.string()).to_pylist(), None], object)[:-1]
    return found


def _calls(requests: dict[str, Any], key: Any, calls: Calls, *, are_noted: bool) -> tuple[Ints, Any]:
    client, sent = requests["client"], requests["from_client_ns"]
    call, is_in_call = np.full(len(client), NO_CALL), np.zeros(len(client), bool)
    by_client = requests["by"] == "client"
    for process in dict.fromkeys(client[by_client].tolist()):
        own = np.flatnonzero(by_client & (client == process))
        call[own], is_in_call[own] = calls.at(
            *(str(process), sent[own], key[own], requests["task"][own]), are_noted=are_noted
        )
    return call, is_in_call


def _of_calls(call: Ints, calls: Calls) -> dict[str, Any]:
    texts = {"f": calls.f, "outcome": calls.outcome, "task": calls.client}
    numbers = {name: getattr(calls, name) for name in _OF_CALL}
    # Where there is no call, the last place is taken.
    of_texts = {name: np.append(column, [None])[call] for name, column in texts.items()}
    return {"call": call, **of_texts, **{name: np.append(column, -1)[call] for name, column in numbers.items()}}
