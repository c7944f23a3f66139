"""For which section each value on the nodes was set. The ledger names the request that set it, and its call.

What an acquire sets belongs to the section that it was granted; what an earlier round of that acquire had set, and it
gave up again, does not, nor does what a refused acquire sets. What an extension sets belongs to its section, granted or
not, and so does what a nested acquire makes of its key, and background work between the grant and the release. A field
that the owner of a hash adds leaves the hash with its owner. With the fields of several clients it may be any of
theirs, and the value counts as unread. So it does if another client was granted the lock by a request that changed no
more than what the fields contain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from fencepost.history import process_of
from harness.history.calls import GRANTS, NO_CALL
from harness.history.commands import COUNT
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import columns_of, known
from harness.history.ledger import Ledger

if TYPE_CHECKING:
    from harness.history.run_tables import RunTables

NO_SECTION: Final = -1
_WHILE_INSIDE: Final = ("extend", "held", "leave")
_READABLE: Final = ("SET", "SETNX", "SETEX", "PSETEX", "GETSET", "MSET", "HSET", "HSETNX", "HMSET", "HINCRBY")
"""What these set can be read; a value of theirs that was not read was gone too soon."""


class Setter(NamedTuple):
    """`section`: its place. `client`: the process that sent the request; `call`: the place of its call, or of the last
    one before it (`is_background`). What is not known is missing."""

    section: int = NO_SECTION
    client: str | None = None
    call: int = NO_CALL
    is_background: bool = False


UNKNOWN: Final = Setter()


@dataclass(frozen=True, slots=True)
class Setters:
    """Whose section the rows of a ledger are about."""

    run: RunTables
    ledger: Ledger
    requested: list[int]
    """By section, when the round that granted it was, if the lock tells; else the earliest time."""
    given_up: frozenset[tuple[int, str, str]]
    """Keys and values that an acquire deleted itself after it had set them for the last time, by the place of the
    call."""
    handed_over: dict[int, Setter]
    """By row: for whom a key was set that another client's request set."""
    renewed_ns: dict[int, int]
    """By row that set a key: when the last request of the same call was sent that prolonged it."""

    @classmethod
    def of(cls, run: RunTables, ledger: Ledger) -> Setters:
        rows, requested = ledger.columns, known(run.sections["requested_ns"])[1].tolist()
        handed = {row: _receiver(ledger, call, run.places) for row, call in ledger.handed_over.items()}
        return cls(run, ledger, requested, frozenset(_given_up(rows)), handed, _renewed(rows))

    @property
    def rows(self) -> dict[str, list[Any]]:
        return self.ledger.columns

    @property
    def has_tasks(self) -> bool:
        """Whether a client process has several."""
        return self.run.config.users_per_client > 1

    def rows_of(self, events: Iterable[int]) -> Iterator[int]:
        """The rows of these events of the witness, as far as the ledger has them."""
        row_of = self.ledger.row_of
        return (row_of[event] for event in events if event in row_of)

    def of_row(self, row: int) -> Setter:
        """For whom the request of this row was sent, if it sets a key."""
        if row in self.handed_over:
            return self.handed_over[row]
        rows = self.rows
        call, f, in_call = rows["call"][row], rows["f"][row], rows["is_in_call"][row]
        if rows["cause"][row] != "request" or rows["by"][row] != "client":
            return UNKNOWN
        if call == NO_CALL or rows["did"][row] in COUNT:
            return Setter(client=rows["client"][row])
        place = self.run.places.get((rows["task"][row], rows["life"][row], rows["section"][row]), NO_SECTION)
        if f in GRANTS:
            is_granted = rows["outcome"][row] == "ok"
            is_its = is_granted and not (f == "acquire" and in_call and self._is_early(row, place))
            is_its |= f == "reenter" and not is_granted and self._goes_on(row)
        else:
            is_its = f in _WHILE_INSIDE
        return Setter(place if is_its else NO_SECTION, rows["client"][row], call, not in_call)

    def replaces(self, row: int, value: str | None, before: Setter) -> bool:
        """Whether a request of a process with several tasks, and it is not known of which, set another value over one
        that this process had set before, and that it names: the key stays whose it was. (One that had deleted the key
        first may do the work of several tasks.)"""
        rows = self.rows
        is_over_another = rows["cause"][row] == "request" and rows["what"][row] == "overwritten"
        is_unknown = self.has_tasks and is_over_another and rows["sender"][row] is None and row not in self.handed_over
        if not is_unknown or value is None or before.client is None or rows["client"][row] != before.client:
            return False
        if rows["by"][row] != "client" or rows["value"][row] == value:
            return False
        return value in (self.ledger.wire.requests["arguments"][rows["request"][row]].as_py() or ())

    def _goes_on(self, row: int) -> bool:
        """Whether a nested acquire set another value over one of its own section: the key stays that section's, refused
        or not."""
        of = self.rows["of"][row]
        names = ("task", "life", "section")
        is_over_another = self.rows["what"][row] == "overwritten" and of >= 0
        return is_over_another and all(self.rows[name][row] == self.rows[name][of] for name in names)

    def _client(self, row: int) -> str:
        """Which client sent the request; its task, if that is on record."""
        return str(self.rows["sender"][row] or self.rows["client"][row])

    def _is_early(self, row: int, section: int) -> bool:
        """Whether an earlier round of a granted acquire set it, and the last one did not take it over."""
        rows = self.rows
        sent_ns = self.renewed_ns.get(row, rows["from_client_ns"][row])
        if (rows["call"][row], rows["key"][row], rows["value"][row]) in self.given_up:
            return True
        if section == NO_SECTION or not 0 <= sent_ns < self.requested[section]:
            return False
        # The last round may ask for the same value, and find it.
        of = self._client(row), rows["node"][row], self.requested[section], rows["complete_ns"][row]
        return not any(rows["value"][row] in one.arguments for one in self.ledger.sent.between(*of))

    def let_go_ns(self, renewed_by: Iterable[int]) -> int:
        """When a release asked to let the key expire sooner than it would have; forever if none did."""
        rows = self.rows
        releases = (row for row in self.rows_of(renewed_by) if rows["f"][row] in ("release", None))
        shorter = (row for row in releases if rows["until_ns"][row] < rows["had_until_ns"][row])
        return min((rows["from_client_ns"][row] for row in shorter), default=FOREVER_NS)

    def taken_over_ns(self, call: int, client: str | None, renewed_by: Iterable[int]) -> int:
        """When a later acquire of the client that had set a key in this call asked to prolong it; forever if none
        did."""
        if call == NO_CALL or client is None:
            return FOREVER_NS
        rows = self.rows
        renewals = self.rows_of(renewed_by)
        own = (row for row in renewals if rows["client"][row] == client and rows["call"][row] != call)
        own = (row for row in own if rows["f"][row] in GRANTS and rows["is_in_call"][row])
        asked = (self.ledger.change(row) for row in own)
        calls = (one for one in asked if not self.ledger.is_beside_its_call(one, self._client(one["row"])))
        return min((one["from_client_ns"] for one in calls), default=FOREVER_NS)

    def task_of(self, setter: Setter) -> str | None:
        """Which of several tasks of its process made the call."""
        return None if setter.call == NO_CALL else str(self.ledger.calls.client[setter.call])

    def is_others_too(self, setter: Setter, renewed_by: Iterable[int]) -> bool:
        """Whether another client was granted the lock by a request that left a hash its fields: their names do not tell
        whose it is."""
        rows = self.rows
        return setter.client is not None and any(
            rows["cause"][row] == "request"
            and rows["f"][row] == "acquire"
            and rows["outcome"][row] == "ok"
            and rows["is_in_call"][row]
            and rows["client"][row] != setter.client
            for row in self.rows_of(renewed_by)
        )

    def sent_ns(self, event: int) -> int:
        """When the request was sent that led to this event of the witness; -1 if that is not known."""
        row = self.ledger.row_of.get(event)
        return -1 if row is None else int(self.rows["from_client_ns"][row])


def _receiver(ledger: Ledger, call: int, places: Mapping[tuple[Any, ...], int]) -> Setter:
    """That call's client, and its section if it was granted."""
    if call == NO_CALL:
        return UNKNOWN
    calls = ledger.calls
    section = (calls.client[call], int(calls.life[call]), int(calls.section[call]))
    place = places.get(section, NO_SECTION) if calls.outcome[call] == "ok" else NO_SECTION
    return Setter(place, process_of(str(calls.client[call])), call)


def _renewed(rows: dict[str, list[Any]]) -> dict[int, int]:
    found: dict[int, int] = {}
    names = ("what", "cause", "owner", "call", "is_in_call", "from_client_ns")
    for what, cause, owner, call, in_call, sent_ns in zip(*(rows[name] for name in names), strict=True):
        is_call_s = cause == "request" and in_call and owner >= 0 and rows["call"][owner] == call
        if what == "prolonged" and is_call_s:
            found[owner] = max(found.get(owner, -1), sent_ns)
    return found


def _given_up(rows: dict[str, list[Any]]) -> set[tuple[int, str, str]]:
    """A later round may set the same value again, at the same time as it deletes the earlier round's on another node.
    So a deletion gives up what the same node was asked to set before, and what any node had answered before."""
    sets: defaultdict[tuple[int, str, str], list[tuple[str, int, int]]] = defaultdict(list)
    deleted: defaultdict[tuple[int, str, str], dict[str, int]] = defaultdict(dict)
    names = ("node", "what", "key", "value", "call", "f", "is_in_call", "from_client_ns", "to_client_ns")
    for node, what, key, value, call, f, in_call, sent_ns, told_ns in zip(*(rows[n] for n in names), strict=True):
        if f != "acquire" or not in_call or value is None:
            continue
        if what == "deleted":
            deleted[call, key, value][node] = max(deleted[call, key, value].get(node, 0), sent_ns)
        else:
            sets[call, key, value].append((node, sent_ns, max(sent_ns, told_ns)))
    return {
        of
        for of, sent in deleted.items()
        if all(sent.get(node, 0) > set_ns or max(sent.values()) > told_ns for node, set_ns, told_ns in sets[of])
    }


def with_setters(holdings: pd.DataFrame, setters: Setters) -> pd.DataFrame:
    """The holdings, with `section`, `client`, `call` and `is_background` as in `Setter`."""
    values, ends = holdings["value"].tolist(), holdings["ended"].tolist()
    found: list[Setter] = []
    latest: dict[tuple[str, str], int] = {}
    shared: set[int] = set()
    names = ("node", "key", "value", "event", "is_hash", "renewed_by")
    rows = zip(*(holdings[name].tolist() for name in names), strict=True)
    for place, (node, key, value, event, is_hash, renewed_by) in enumerate(rows):
        before = latest.get((node, key))
        row = setters.ledger.row_of.get(event)
        if row is None:
            # It was there when the node could be watched again: what it had held before.
            is_same = before is not None and values[before] == value
            setter = found[before] if is_same and before is not None else UNKNOWN
        elif setters.rows["what"][row] == "changed":
            setter = _changed(setters, row, UNKNOWN if before is None else found[before], shared)
            if setters.rows["owner"][row] in shared or setters.is_others_too(setter, renewed_by):
                values[place] = None
                if before is not None and ends[before] == "overwritten":
                    ends[before] = "set unread"
        else:
            setter = setters.of_row(row)
            if before is not None and setters.replaces(row, values[before], found[before]):
                setter = found[before]._replace(is_background=True)
            if setters.rows["did"][row] in COUNT:
                values[place] = None
            elif value is None and setters.rows["did"][row] not in _READABLE:
                setter = Setter(client=setter.client)
        if is_hash and setters.is_others_too(setter, renewed_by):
            values[place], setter = None, UNKNOWN
        found.append(setter)
        latest[node, key] = place
    columns = list(zip(*found, strict=True)) if found else [(), (), (), ()]
    return holdings.assign(
        value=objects(values),
        ended=objects(ends),
        section=np.array(columns[0], np.int64),
        client=objects(columns[1]),
        call=np.array(columns[2], np.int64),
        is_background=np.array(columns[3], bool),
    )


def objects(values: Iterable[Any]) -> pd.Series:
    """A column in which None stays None, and a tuple is one value."""
    return pd.DataFrame({"value": list(values)}, dtype=object)["value"]


def _changed(setters: Setters, row: int, before: Setter, shared: set[int]) -> Setter:
    """Whose a hash is when its fields have changed."""
    by, owner = setters.of_row(row), setters.rows["owner"][row]
    is_ones = by.client is not None and by.client == before.client
    if setters.has_tasks and not setters.run.is_exclusive:  # tasks of one process may be inside at once
        is_ones &= setters.rows["task"][row] == setters.task_of(before)
    if not is_ones:
        shared.add(owner)
    if owner in shared:
        return UNKNOWN
    return by if by.section != NO_SECTION else before


def done_with(run: RunTables, ledger: Ledger, holdings: pd.DataFrame, left_ns: Any) -> pd.DataFrame:
    """The holdings with `task`, whose call set them; `done_ns`, when their owner was done with them (forever if that is
    not known); and `is_gone`, whether it could no longer delete them then. A refused attempt is done when it ends."""
    section, call = columns_of(holdings, "section", "call")
    calls, is_its = ledger.calls, section != NO_SECTION
    complete = np.append(calls.complete_ns, FOREVER_NS)[call]
    is_cut = np.append(calls.outcome == "", False)[call].astype(bool)
    released = np.append((run.sections["ended"] == "release").to_numpy(bool), True)[section]
    return holdings.assign(
        task=objects(np.array((*calls.client, None), object)[call]),
        done_ns=np.where(is_its, np.append(left_ns, FOREVER_NS)[section], complete),
        is_gone=np.where(is_its, ~released, is_cut),
    )
