"""Which client owns each key on the nodes. The ledger says which request set the key, and in which call.

A lock's key may have a different name on the nodes (a library's prefix). What granted acquires set, and releases delete
or change, is the lock; what else they set (who waits, or was seen last) is not. Clients may use the same value again
and again, or several the same one; then it does not tell their keys apart, but the requests do.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from fencepost.history import FIELDS_APART, process_of
from harness.history.calls import GRANTS, NO_CALL
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Ints, rows_of, where
from harness.history.held_keys import HeldKey, held_keys
from harness.history.key_holdings import Watched
from harness.history.key_setters import NO_SECTION, Setters, done_with, objects, with_setters
from harness.history.ledger import Ledger
from harness.history.unowned import Unowned

if TYPE_CHECKING:
    from harness.history.run_tables import RunTables

_NUMBER: Final = re.compile("[0-9]+")
_IDENTIFIER: Final = re.compile(r"[0-9a-fA-F-]{8,}|[0-9A-Za-z+/=_-]{16,}")


@dataclass(frozen=True)
class Owners:
    """`holdings`: those of the lock's keys, with the lock's own name of the key (`lock_key`) and

    section          the place in `sections` of the section that it was set for; -1 if for none, or if that is not known
    client, task     the process that set it, and which of its tasks; missing if that is not known
    is_background    whether it was set outside of any call
    done_ns          when its owner was done with it; forever if that is not known
    is_gone          whether its owner was gone by then
    renewals_sent    when each of its renewals was sent; -1 if that is not known
    taken_over_ns    when a later acquire of its client asked to prolong it; forever if none did
    let_go_ns        when a release asked to let it expire sooner than it would have; forever if none did

    `values`: by place in `sections`, the values that were set for that section, or that its client found there: no
    other client's. Empty for a section that set no key although others do, and missing where the value does not tell
    whose key it is, and for readers. `shared`: by key on the nodes and value, the places of the sections for which the
    key was set to this value, if they are of several clients. `of_clients`: values that one client uses again and
    again, and that client. `copies`: keys on the nodes that acquires set, and that are not the lock's."""

    holdings: pd.DataFrame
    values: dict[int, set[str]]
    shared: dict[tuple[str, str], list[int]]
    of_clients: Mapping[str, str] = field(default_factory=dict)
    copies: Set[str] = frozenset()

    @cached_property
    def each(self) -> list[HeldKey]:
        """The holdings, row by row."""
        return held_keys(self.holdings)

    @property
    def are_shown(self) -> bool:
        """Whether any key on a node is known to have been set for a section."""
        return bool((self.holdings["section"] >= 0).any())


def find_owners(run: RunTables, watched: Watched, ledger: Ledger, unowned: Unowned) -> Owners:
    """Match the nodes' holdings with the granted sections."""
    setters = Setters.of(run, ledger)
    counted = unowned.counters | unowned.places
    every = watched.holdings[~watched.holdings["key"].isin(counted)].reset_index(drop=True)
    every = with_setters(every, setters)
    is_copy = every["event"].isin(ledger.copied_events)  # what a client had read is still of who had drawn it
    by_none = {"client": every["client"].mask(is_copy, None), "call": every["call"].mask(is_copy, NO_CALL)}
    every = every.assign(section=every["section"].mask(is_copy, NO_SECTION), **by_none)
    used = _Used.of(run, ledger, every, unowned)
    is_of_none = every["value"].isin(unowned.values).to_numpy(bool)
    of_none = {"client": every["client"].mask(is_of_none, None), "call": every["call"].mask(is_of_none, NO_CALL)}
    every = every.assign(section=used.sections(every), **of_none)
    known = [process_of(used.client_of[section]) if section != NO_SECTION else None for section in every["section"]]
    every = every.assign(client=every["client"].where(every["client"].notna(), pd.Series(known, dtype=object)))
    holdings, copies = _of_the_lock(run, ledger, every)
    if unowned.queues:
        holdings = holdings[~holdings["is_hash"] & ~holdings["key"].isin(unowned.queues)].reset_index(drop=True)
        copies = copies | unowned.queues
    if run.config.users_per_client > 1 and not run.is_exclusive:
        # Otherwise it is not known whose place it is.
        of_tasks = where(ledger.rows, ledger.rows["sender"].notna())["event"]
        holdings = where(holdings, event=of_tasks.tolist()).reset_index(drop=True)
    values = _values(run, setters, holdings, used)
    if run.config.users_per_client > 1:
        # What is not known to be a task's may be its own all the same. What of a semaphore is not was left out above,
        # so a section may have no more than what it set after its acquire.
        set_by_own = {of for of, own in values.items() if own}
        if not run.is_exclusive:
            set_by_own &= set(where(holdings, _set_by_acquires(ledger, holdings))["section"])
        values = {of: own for of, own in values.items() if of in set_by_own or _has_noted_all(run, ledger, of)}
    of_clients = _of_clients(run, values, used)
    holdings = done_with(run, ledger, holdings, left_ns(run))
    sent = (tuple(map(setters.sent_ns, events)) for events in holdings["renewed_by"])
    taken = [setters.taken_over_ns(*of) for of in rows_of(holdings, "call", "client", "renewed_by")]
    let_go = np.array([setters.let_go_ns(events) for events in holdings["renewed_by"]], np.int64)
    holdings = holdings.assign(renewals_sent=objects(sent), taken_over_ns=np.array(taken, np.int64), let_go_ns=let_go)
    if "shared" in run.sections:
        # Readers share a key, so what it holds is not one reader's.
        alone = np.flatnonzero(run.sections["shared"].to_numpy() == 0)
        values = {section: values[section] for section in alone.tolist() if section in values}
    else:
        alone = np.arange(len(run.sections))
    if 2 * sum(map(bool, values.values())) < len(alone):
        # What this lock sets tells nothing of who holds it.
        values, of_clients = {}, {}
    return Owners(holdings, values, used.shared(holdings), of_clients, copies)


def _set_by_acquires(ledger: Ledger, holdings: pd.DataFrame) -> pd.Series:
    """Which of the holdings acquires set themselves."""
    f = np.append(ledger.calls.f, "")[holdings["call"].to_numpy(np.int64)]
    return ~holdings["is_background"] & np.isin(f, GRANTS)


def _has_noted_all(run: RunTables, ledger: Ledger, section: int) -> bool:
    """Whether the section's process noted for which task it sent each request that named a key while it acquired."""
    if not ledger.wire.notes_tasks:
        return False
    client, asked_ns, start_ns = next(rows_of(run.sections[section : section + 1], "client", "asked_ns", "start_ns"))
    nodes = run.config.node_names
    sent = (one for node in nodes for one in ledger.sent.between(str(client), node, asked_ns, start_ns))
    return all(one.task is not None for one in sent if one.keys)


@dataclass(frozen=True, slots=True)
class _Used:
    """Who had each value set. `sections_of`: by value, the places of sections; `sections_on`: by key and value;
    `clients`: by value, all clients, also of attempts that were refused; `times`: by value, for which sections, granted
    or not, these calls were. `unowned`: the values of none. `readers`: the sections that share the lock."""

    sections_of: dict[str, set[int]]
    sections_on: dict[tuple[str, str], set[int]]
    clients: dict[str, set[str]]
    times: dict[str, set[tuple[str, int, int]]]
    unowned: frozenset[str]
    client_of: list[str]
    readers: frozenset[int]

    @classmethod
    def of(cls, run: RunTables, ledger: Ledger, holdings: pd.DataFrame, unowned: Unowned) -> _Used:
        calls = ledger.calls
        sections: defaultdict[str, set[int]] = defaultdict(set)
        sections_on: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        clients: defaultdict[str, set[str]] = defaultdict(set)
        times: defaultdict[str, set[tuple[str, int, int]]] = defaultdict(set)
        for key, value, section, call in rows_of(holdings, "key", "value", "section", "call"):
            if value and call != NO_CALL:
                clients[value].add(run.config.owner_of(str(calls.client[call])))
                times[value].add((str(calls.client[call]), int(calls.life[call]), int(calls.section[call])))
                if section != NO_SECTION:
                    sections[value].add(section)
                    sections_on[str(key), value].add(section)
        client_of = [run.config.owner_of(client) for client in run.sections["client"].astype(str)]
        shared = run.sections["shared"] if "shared" in run.sections else pd.Series(dtype=np.int8)
        readers = frozenset(np.flatnonzero(shared.to_numpy() == 1).tolist())
        return cls(sections, sections_on, clients, times, unowned.values, client_of, readers)

    def sections(self, holdings: pd.DataFrame) -> Ints:
        """For whom each of the holdings was set. What no call for a section set, or none that is known, is a section's
        if it has a value that only that one had set."""
        found = holdings["section"].to_numpy(np.int64).copy()
        for place, (value, client) in enumerate(rows_of(holdings, "value", "client")):
            if value in self.unowned:
                found[place] = NO_SECTION
            elif found[place] == NO_SECTION and self.is_ones(value) and len(own := self.sections_of[value]) == 1:
                (section,) = own
                if client is None or client == process_of(self.client_of[section]):
                    found[place] = section
        return found

    def is_ones(self, value: str | None) -> bool:
        """Whether only one client is known to have set it, for a section."""
        return value in self.sections_of and len(self.clients[value]) == 1

    def shared(self, holdings: pd.DataFrame) -> dict[tuple[str, str], list[int]]:
        """The values of sections of several clients, on one key, that had no other value. Of two keys with the same
        value, as one that tells the time may be, each is its own client's. What a hash of several fields holds is of
        several owners, or counts, so it is no value of one. Nor is one that only readers set, which share the lock."""
        told = {row for value, rows in self.sections_of.items() if len(self.clients[value]) == 1 for row in rows}
        found = {}
        is_of_several = holdings["is_hash"] & holdings["value"].str.contains(FIELDS_APART, regex=False, na=False)
        own = holdings[~is_of_several & holdings["value"].notna()]
        for key, value in dict.fromkeys(rows_of(own, "key", "value")):
            rows = sorted(self.sections_on.get((str(key), value), set()) - told)
            if self.readers.issuperset(rows):
                continue
            if value not in self.unowned and len({self.client_of[row] for row in rows}) > 1:
                found[str(key), value] = rows
        return found


def _of_the_lock(run: RunTables, ledger: Ledger, holdings: pd.DataFrame) -> tuple[pd.DataFrame, set[str]]:
    """The holdings of the lock's keys, with the lock's own name of the key as `lock_key`; and copies: other keys that
    acquires set."""
    keys = run.sections["key"].astype(str).tolist()
    held: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    for node, key, section in rows_of(holdings, "node", "key", "section"):
        if section != NO_SECTION:
            held[key].add((node, section))
    own_names = {str(key): str(key) for key in run.ops["key"].unique()}
    latest = {key: sorted((section for _, section in own), reverse=True) for key, own in held.items()}
    names = {key: Counter(keys[section] for section in of).most_common(1)[0][0] for key, of in latest.items()}
    if acquired := _acquired(ledger):
        own_names, names = ({key: of for key, of in some.items() if key in acquired} for some in (own_names, names))
    freed = {_sort(key) for key in _freed(ledger)}
    if run.is_exclusive:
        copies = _copies(held, names, own_names.keys(), freed)
    else:
        copies = _besides_the_slots(run, ledger, names, latest, freed)
    copies |= held.keys() - names.keys()
    names = {key: name for key, name in (names | own_names).items() if key not in copies}
    names |= dict(_alike(ledger, holdings, names, copies))
    lock_key = holdings["key"].astype(str).map(names)
    return where(holdings.assign(lock_key=lock_key), lock_key.notna()).reset_index(drop=True), copies


def _copies(
    held: Mapping[str, set[tuple[str, int]]], names: Mapping[str, str], own_names: Set[str], freed: Set[str]
) -> set[str]:
    """Of a lock with one holder: the keys that releases do not delete, or beside which the key with its own name, or
    else that of the most sections, was set for most of their sections on that node, too. `held`: by key, on which nodes
    it was set for which sections; `names`: what the lock calls it; `freed`: the sorts that releases delete. Of keys
    that are numbered, as each grant may set one of its own, some may never be deleted."""
    under = {of for key in own_names for of in held.get(key, ())}
    copies = {key for key, own in held.items() if key not in own_names and 2 * len(own & under) > len(own)}
    freed_names = {name for key, name in names.items() if _sort(key) in freed and key not in copies} | own_names
    kept = {key for key in names.keys() - own_names if _sort(key) not in freed}
    copies |= {key for key in kept if names[key] in freed_names}
    if not under and (some := names.keys() - copies):  # no key has its own name on the nodes
        times = Counter[str]()
        for key in some:
            times[_shape(key, names[key])] += len(held[key])
        for name in {names[key] for key in some}:
            own = sorted(key for key in some if names[key] == name)
            main = max(own, key=lambda key: times[_shape(key, names[key])])
            copies |= {key for key in own if key != main and 2 * len(held[key] & held[main]) > len(held[key])}
    return copies


def _shape(key: str, name: str) -> str:
    """What the key is called, whatever lock it is of: `prefix:{}:holder`."""
    return key.replace(name, "{}")


def _besides_the_slots(
    run: RunTables, ledger: Ledger, names: Mapping[str, str], latest: Mapping[str, Sequence[int]], freed: Set[str]
) -> set[str]:
    """Of a lock that lets several clients in, whose slots have names of their own: the keys of sorts that no release
    deletes. Of slots that are numbered some may never have been given back, but not all."""
    if not freed:
        return set()
    return _kept_besides(run, ledger, latest) | {key for key in names if _sort(key) not in freed}


def _kept_besides(run: RunTables, ledger: Ledger, sections: Mapping[str, Sequence[int]]) -> set[str]:
    """Those of a lock that lets several clients in that tell who waits, or who was seen last: of the keys whose names
    have an identifier, and are alike otherwise, hardly any is one that its own section's release freed. `sections`: by
    key, the places of the sections that it was set for."""
    releases = where(ledger.rows, f="release", what=("deleted", "changed"))
    freed = {(str(key), run.places.get(tuple(of))) for key, *of in rows_of(releases, "key", "task", "life", "section")}
    alike: defaultdict[str, set[str]] = defaultdict(set)
    for key in sections:
        if _kind(key) != key:
            alike[_kind(key)].add(key)
    own = {key for key, of in sections.items() if any((key, section) in freed for section in of)}
    return {key for of in alike.values() if 2 * len(of & own) < len(of) for key in of}


def _alike(
    ledger: Ledger, holdings: pd.DataFrame, names: Mapping[str, str], copies: Set[str]
) -> Iterator[tuple[str, str]]:
    """The keys that are not known to have been set for any section, of the sorts that these are."""
    sorts = {_sort(key) for key in names if _sort(key) != key}
    others = {str(key) for key in holdings["key"].unique()} - names.keys() - copies
    meant = ledger.calls.meant_by(others)
    return ((key, meant[key][0]) for key in others if _sort(key) in sorts and len(meant[key]) == 1)


def _kind(key: str) -> str:
    """The name without identifiers: keys that are alike otherwise serve the same purpose."""
    return _IDENTIFIER.sub("*", key)


def _sort(key: str) -> str:
    """The name without identifiers and numbers."""
    return _NUMBER.sub("#", _kind(key))


def _acquired(ledger: Ledger) -> set[str]:
    """The keys that acquires and extensions set or changed."""
    acquires = where(ledger.rows, ledger.rows["what"] != "deleted", f=(*GRANTS, "extend", "held"))
    return {str(key) for key in acquires["key"].unique()}


def _freed(ledger: Ledger) -> set[str]:
    """The keys that releases delete or change, or set: a lock may be free while a key is there."""
    freed = where(ledger.rows, f="release", what=("deleted", "changed", "overwritten", "set"))
    return {str(key) for key in freed["key"].unique()}


class _Lasting(NamedTuple):
    """A section, by its place."""

    place: int
    key: str
    client: str
    asked_ns: int
    start_ns: int
    end_ns: int


def _values(run: RunTables, setters: Setters, holdings: pd.DataFrame, used: _Used) -> dict[int, set[str]]:
    """By section, the values that only its client had set, and that are, or may be, its own."""
    values: defaultdict[int, set[str]] = defaultdict(set)
    unclear: set[int] = set()
    for section, value in rows_of(holdings, "section", "value"):
        if section == NO_SECTION:
            continue
        if value is None or used.is_ones(value):
            values[section] |= {value} - {None}
        else:
            unclear.add(section)
    for section, value in _prolonged(setters, set(holdings["key"].astype(str).unique())):
        if used.is_ones(value) and used.clients[value] == {used.client_of[section]}:
            values[section].add(value)
    names = ("key", "client", "asked_ns", "start_ns", "end_ns")
    lasting = [_Lasting(place, *row) for place, row in enumerate(rows_of(run.sections, *names))]
    _add_unknown(holdings, used, lasting, values)
    found: defaultdict[tuple[str, str], list[tuple[int, int, str]]] = defaultdict(list)
    columns = ("lock_key", "client", "value", "from_min_ns", "to_max_ns")
    for key, client, value, since_ns, until_ns in rows_of(holdings, *columns):
        if value is not None and client is not None and used.is_ones(value):
            found[key, client].append((since_ns, until_ns, value))
    for one in lasting:
        if one.place not in unclear and not values[one.place]:
            there = found.get((one.key, process_of(one.client)), ())
            values[one.place] |= {v for since, until, v in there if since <= one.start_ns and until >= one.asked_ns}
    return {section: own for section, own in sorted(values.items()) if own or section not in unclear}


def _prolonged(setters: Setters, keys: Set[str]) -> Iterator[tuple[int, str]]:
    """The sections whose calls gave more time to a key that their own client had set, and its value."""
    rows = setters.rows
    for row, what in enumerate(rows["what"]):
        if what != "prolonged" or rows["value"][row] is None or rows["key"][row] not in keys:
            continue
        owner = rows["owner"][row]
        if owner < 0 or rows["client"][owner] == rows["client"][row]:
            section = setters.of_row(row).section
            if section != NO_SECTION:
                yield section, rows["value"][row]


def _add_unknown(holdings: pd.DataFrame, used: _Used, lasting: Sequence[_Lasting], values: dict[int, set[str]]) -> None:
    """A key of which it is not known who set it may be that of any section that had been asked for and was not left."""
    columns = ("call", "section", "lock_key", "client", "value", "from_min_ns", "from_max_ns")
    for call, section, key, client, value, since_ns, by_ns in rows_of(holdings, *columns):
        if call != NO_CALL or section != NO_SECTION or value is None or value in used.clients:
            continue
        for one in lasting:
            may_be = one.key == key and one.asked_ns <= by_ns and since_ns <= one.end_ns
            if may_be and client in (None, process_of(one.client)):
                values[one.place].add(value)


def _of_clients(run: RunTables, values: Mapping[int, set[str]], used: _Used) -> dict[str, str]:
    """The values that one client uses again and again."""
    times = {value: set(of) for value, of in used.times.items() if len(used.clients[value]) == 1}
    sections = list(run.places)
    for section, own in values.items():
        for value in own & times.keys():
            times[value].add(sections[section])
    again = {value for value, of in times.items() if len(of) > 1}
    return {value: next(iter(used.clients[value])) for value in again}


def left_ns(run: RunTables) -> Ints:
    """For each section when its client no longer owned the key: the release had returned, or the client was gone; never
    if neither was recorded."""
    releases = rows_of(run.calls("release"), "client", "life", "section", "complete_ns")
    done = {tuple(section): complete for *section, complete in releases}
    gone = {(end.client, end.life): end.at_ns for end in run.ends}
    return np.array([done.get(section, gone.get(section[:2], FOREVER_NS)) for section in run.places], np.int64)
