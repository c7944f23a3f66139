"""Who owns the keys that the nodes hold? The value decides if the lock exposes it; else the client that was trying
then.

A lock's key may have a different name on the nodes (a library's prefix); the values show which name belongs to which
key. Other keys with the values of its own one (of who waits, or was seen last) are not the lock itself. A lock
that keeps a hash names its owner in a field: all sections of one client may show the same value, and none in that life
another. Then the time decides which call a key was set by; a client calls for a key once at a time, and a refused call
may set it too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fencepost.history import FIELDS_APART
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Ints
from harness.history.key_holdings import Watched

if TYPE_CHECKING:
    from harness.history.recorded import Recorded


@dataclass(frozen=True, slots=True)
class Owners:
    """`holdings`: those of the lock's keys, with the lock's own name of the key (`lock_key`) and the place in
    `sections` of the section that it was set for (`section`, -1 if unknown).

    `values`: by place in `sections`, the values that the lock exposed for that section and no other, or for the
    sections of one client and no other's; a lock may set another value on each node. `shared`: values that the lock
    exposed for several sections, with the places of those. The field of a hash names its client, and is not among them
    unless several clients used it. `of_clients`: such fields, which tell a client's calls apart by the time alone, and
    their clients. These are empty, but for `shared`, if the lock keeps its values in another form than it shows them.
    `copies`: keys on the nodes that have such values and are not the lock's."""

    holdings: pd.DataFrame
    values: dict[int, set[str]]
    shared: dict[str, list[int]]
    of_clients: Mapping[str, str] = field(default_factory=dict)
    copies: Set[str] = frozenset()

    @property
    def are_shown(self) -> bool:
        """Whether any value that the lock exposed was seen on a node."""
        return bool((self.holdings["section"] >= 0).any())


def find_owners(run: Recorded, watched: Watched) -> Owners:
    """Match the nodes' holdings with the granted sections."""
    place = places_of(run.sections)
    of_value: defaultdict[str, set[int]] = defaultdict(set)
    of_section: defaultdict[int, set[str]] = defaultdict(set)
    for *which, value in rows_of(watched.held, "client", "life", "section", "value"):
        if value and (row := place.get(tuple(which))) is not None:
            of_value[value].add(row)
            of_section[row].add(value)
    shown = {value: sorted(rows) for value, rows in of_value.items()}
    holdings = _with_one_field(run, watched.holdings, shown)
    seen, of_hashes = set(holdings["value"]), set(holdings["value"][holdings["is_hash"]])
    clients = run.sections["client"].astype(str).tolist()
    several = {value: rows for value, rows in shown.items() if len(rows) > 1 and value in seen}
    names = of_hashes & _same_in_all_sections(run, of_section)
    one_client = {
        value: rows
        for value, rows in shown.items()
        if (value in several or value in names) and len({clients[row] for row in rows}) == 1
    }
    shared = {value: rows for value, rows in several.items() if value not in one_client or value not in of_hashes}
    single = {value: rows[0] for value, rows in shown.items() if len(rows) == 1 and value not in one_client}
    section = np.array([single.get(value, -1) for value in holdings["value"]], np.int64)
    _match_by_time(run, holdings, one_client, section)
    unshown = _of_failed_extensions(run, holdings, shown, section)
    holdings, copies = _of_the_lock(run, holdings.assign(section=section))
    if not _are_kept_as_shown(holdings, shown):
        ours = (holdings["key"].astype(str) == holdings["lock_key"]).to_numpy(bool)
        copies = copies | set(holdings["key"][~ours].unique())
        return Owners(holdings[ours].assign(section=-1).reset_index(drop=True), {}, shared, copies=copies)
    values: defaultdict[int, set[str]] = defaultdict(set)
    of_one = ((value, [row]) for value, row in (*single.items(), *unshown.items()))
    for value, rows in (*of_one, *one_client.items()):
        for row in rows:
            values[row].add(value)
    of_clients = {value: clients[rows[0]] for value, rows in one_client.items()}
    return Owners(holdings, dict(values), shared, of_clients, copies)


def _same_in_all_sections(run: Recorded, of_section: Mapping[int, set[str]]) -> set[str]:
    """The values that clients showed for each section of a life, and no others."""
    of_life: defaultdict[tuple[str, int], list[set[str]]] = defaultdict(list)
    lives = list(rows_of(run.sections, "client", "life"))
    for row, values in of_section.items():
        of_life[lives[row]].append(values)
    return {value for sets in of_life.values() if all(one == sets[0] for one in sets) for value in sets[0]}


def _of_the_lock(run: Recorded, holdings: pd.DataFrame) -> tuple[pd.DataFrame, set[str]]:
    """The holdings of the lock's keys, with the lock's own name of the key as `lock_key`; and copies: other keys whose
    values were, for most of their sections, on that node under the key's own name, too; and, where the ledger tells,
    under the name that the most sections had, or keys that no acquire sets. The places of a semaphore have names of
    their own."""
    keys = run.sections["key"].astype(str).tolist()
    held: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    for node, key, section in rows_of(holdings, "node", "key", "section"):
        if section >= 0:
            held[key].add((node, section))
    own_names = {str(key): str(key) for key in run.ops["key"].unique()}
    latest = {key: sorted((section for _, section in own), reverse=True) for key, own in held.items()}
    names = {key: Counter(keys[section] for section in of).most_common(1)[0][0] for key, of in latest.items()}
    if acquired := _acquired(run):
        own_names, names = ({key: of for key, of in some.items() if key in acquired} for some in (own_names, names))
    under = {of for key in own_names for of in held.get(key, ())}
    copies = {key for key, own in held.items() if key not in own_names and 2 * len(own & under) > len(own)}
    if acquired and names and not under:  # no key has its own name on the nodes
        main = max(names, key=lambda key: len(held[key]))
        copies |= {key for key in names if key != main and 2 * len(held[key] & held[main]) > len(held[key])}
    if run.permits > 1:
        copies.clear()
    copies |= held.keys() - names.keys()
    names = {key: name for key, name in (names | own_names).items() if key not in copies}
    lock_key = holdings["key"].astype(str).map(names)
    return holdings.assign(lock_key=lock_key)[lock_key.notna().to_numpy(bool)].reset_index(drop=True), copies


def _acquired(run: Recorded) -> set[str]:
    """The keys that acquires and extensions set or changed on nodes; empty if that is not on record."""
    if run.ledger is None:
        return set()
    rows = run.ledger.rows
    are_acquires = rows["f"].isin(["acquire", "reenter", "extend", "held"]) & (rows["what"] != "deleted")
    return {str(key) for key in rows["key"][are_acquires.to_numpy(bool)].unique()}


def _are_kept_as_shown(holdings: pd.DataFrame, shown: Container[str]) -> bool:
    """Whether the nodes hold what the lock shows: values that it showed were seen under the lock's own name, or, if it
    keeps hardly any other text there, under another one. Numbers count something."""
    values = holdings["value"].dropna()
    itself = values[holdings["key"].astype(str) == holdings["lock_key"]]
    if any(value in shown for value in itself.unique()):
        return True
    texts = int((~itself.str.fullmatch(r"-?\d+").astype(bool)).sum())
    return sum(value in shown for value in values) > 2 * texts


def _with_one_field(run: Recorded, holdings: pd.DataFrame, shown: Mapping[str, list[int]]) -> pd.DataFrame:
    """The holdings, where the value of a hash with several fields is the one that its owner showed last. A lock may
    keep a field for each of its client's acquires. If they are several clients' fields, the value is not known."""
    several = holdings["is_hash"] & holdings["value"].str.contains(FIELDS_APART, regex=False, na=False)
    if not several.any():
        return holdings
    asked, clients = run.sections["asked_ns"].tolist(), run.sections["client"].astype(str).tolist()
    values = holdings["value"].copy()
    for place, value, by_ns in rows_of(holdings[several].reset_index(), "index", "value", "from_max_ns"):
        fields = {row: each for each in value.split(FIELDS_APART) for row in shown.get(each, ()) if asked[row] <= by_ns}
        if fields and value not in shown:
            values[place] = fields[max(fields)] if len({clients[row] for row in fields}) == 1 else None
    return holdings.assign(value=values)


def _match_by_time(run: Recorded, holdings: pd.DataFrame, values: dict[str, list[int]], section: Ints) -> None:
    """Fill in the sections of the holdings with these values, by the client's calls for that key: the last one that had
    begun when the key was seen to be set. If that call was refused, the key is no section's. A client that died may
    have called once more; that call owns only keys that were certainly set after it may have begun."""
    clients = run.sections["client"].astype(str).tolist()
    calls = calls_by_client(run)
    since, until = (holdings[name].to_numpy(np.int64) for name in ("from_min_ns", "from_max_ns"))
    guesses = {(client, began) for client, began, _ in _of_the_dead(run)}
    places: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, (value, key) in enumerate(rows_of(holdings, "value", "key")):
        if value in values:
            places[value, key].append(place)
    for (value, key), at in places.items():
        client = clients[values[value][0]]
        of_client = calls[client]
        # A key with a name of the lock's own may be any call's.
        own = of_client.get(key) or sorted(call for of_key in of_client.values() for call in of_key)
        known = [call for call in own if call[1] >= 0 or (client, call[0]) not in guesses]
        begun, rows = (np.array(column, np.int64) for column in zip((-1, -1), *known, strict=True))
        last = np.searchsorted(begun, until[at], "right") - 1
        guessed = np.array([-1, *sorted(began for who, began in guesses if who == client)], np.int64)
        guess = guessed[np.searchsorted(guessed, since[at], "left") - 1]
        section[at] = np.where(guess > begun[last], -1, rows[last])


def _of_failed_extensions(
    run: Recorded, holdings: pd.DataFrame, shown: Container[str], section: Ints
) -> dict[str, int]:
    """Fill in the sections of holdings that extensions set and nobody showed, and return their values with them.

    An extension may set a new value in place of its section's own. If it fails halfway, some nodes have it, and the
    lock tells nobody. So in a run in which extensions were seen to do that, a value that no section showed, and that
    replaced one of a section, is that section's if it had asked for an extension by then and had not left."""
    pairs: list[tuple[int, int]] = []  # what was overwritten, and by what
    overwritten: dict[tuple[str, str], int] = {}
    for row, (node, key, ended) in enumerate(rows_of(holdings, "node", "key", "ended")):
        if (before := overwritten.pop((node, key), None)) is not None:
            pairs.append((before, row))
        if ended == "overwritten":
            overwritten[node, key] = row
    if not any(section[before] >= 0 and section[before] == section[after] for before, after in pairs):
        return {}
    value, since, until = (holdings[name].tolist() for name in ("value", "from_min_ns", "from_max_ns"))
    asked, left = _first_extensions(run), run.sections["end_ns"].tolist()
    found: dict[str, int] = {}
    for before, after in pairs:
        of, new = int(section[before]), value[after]
        was_asked = asked.get(of, FOREVER_NS) <= until[after]
        if was_asked and since[after] <= left[of] and new is not None and new not in shown:
            section[after] = found[new] = of
    return found


def _first_extensions(run: Recorded) -> dict[int, int]:
    """When each section first asked for an extension, by its place."""
    ops, place = run.ops[(run.ops["f"] == "extend").to_numpy(bool)], places_of(run.sections)
    first: dict[int, int] = {}
    for *of, invoke in rows_of(ops, "client", "life", "section", "invoke_ns"):
        if (row := place.get(tuple(of))) is not None:
            first[row] = min(invoke, first.get(row, invoke))
    return first


def calls_by_client(run: Recorded) -> dict[str, dict[str, list[tuple[int, int]]]]:
    """By client and key, in order: when it called for the lock, and the place in `sections` of what was granted then,
    or -1. A client that died may have called for any key since its last operation."""
    ops, place = run.ops, places_of(run.sections)
    calls: defaultdict[str, defaultdict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    columns = ("client", "key", "life", "section", "outcome", "invoke_ns")
    for client, key, life, section, outcome, invoke in rows_of(ops[ops["f"] == "acquire"], *columns):
        calls[client][key].append((invoke, place[client, life, section] if outcome == "ok" else -1))
    for client, began, _ in _of_the_dead(run):
        for of_key in calls[client].values():
            of_key.append((began, -1))
    return {client: {key: sorted(own) for key, own in of_client.items()} for client, of_client in calls.items()}


def left_ns(run: Recorded) -> Ints:
    """For each section when its client no longer owned the key: the release had returned, or the client was gone; never
    if neither was recorded."""
    releases = rows_of(run.ops[run.ops["f"] == "release"], "client", "life", "section", "complete_ns")
    done = {tuple(section): complete for *section, complete in releases}
    gone = {(end.client, end.life): end.at_ns for end in run.ends}
    sections = places_of(run.sections)
    return np.array([done.get(section, gone.get(section[:2], FOREVER_NS)) for section in sections], np.int64)


def rows_of(frame: pd.DataFrame, *names: str) -> Iterator[tuple[Any, ...]]:
    """These columns, row by row, as plain Python values."""
    return zip(*(frame[name].tolist() for name in names), strict=True)


def places_of(sections: pd.DataFrame) -> dict[tuple[Any, ...], int]:
    """By client, life and the section's number: its place in `sections`. In the order of the places."""
    return {section: row for row, section in enumerate(rows_of(sections, "client", "life", "section"))}


class Tries:
    """All attempts to acquire one key: when each started, and when its client no longer owned anything from it.

    `tries`: (began, until, whether the client died), in any order."""

    def __init__(self, tries: Iterable[tuple[int, int, bool]]) -> None:
        in_order = sorted(tries)
        self._began = [began for began, _, _ in in_order]
        nobody = (-1, False)
        self._latest = list(accumulate(((until, died) for _, until, died in in_order), max, initial=nobody))

    def last_owner(self, by_ns: int) -> tuple[int, bool]:
        """The latest end of the attempts that had started by then, and whether that attempt ended because its client
        died; a time before all others if none had started. If it is before the key was set, no client was trying."""
        return self._latest[bisect_right(self._began, by_ns)]


def tries_by_key(run: Recorded, owners: Owners, left: Ints) -> dict[str, Tries]:
    """The attempts to acquire each of the keys that the nodes held. `left`: the result of `left_ns`."""
    ops, place = run.ops, places_of(run.sections)
    by_key: dict[str, list[tuple[int, int, bool]]] = {str(key): [] for key in owners.holdings["lock_key"].unique()}
    columns = ("key", "client", "life", "section", "outcome", "invoke_ns", "complete_ns")
    asked = ops[ops["f"].isin(["acquire", "reenter"])]
    for key, client, life, section, outcome, invoke, complete in rows_of(asked, *columns):
        if key not in by_key:
            continue
        row = place.get((client, life, section), -1) if outcome == "ok" else -1
        # If a granted section's value is known, its key is matched by value; only its earlier rounds matter here.
        is_unknown = row >= 0 and row not in owners.values
        by_key[key].append((invoke, int(left[row]) if is_unknown else complete, False))
    of_the_dead = [(began, until, True) for _, began, until in _of_the_dead(run)]
    return {key: Tries([*tries, *of_the_dead]) for key, tries in by_key.items()}


def _of_the_dead(run: Recorded) -> list[tuple[str, int, int]]:
    """A client that was killed may have been trying, for any key, from its last operation to its end."""
    dead = [end for end in run.ends if end.how != "finished"]
    if not dead:
        return []
    # Each client's operations are in the order in which it recorded them.
    rows = rows_of(run.ops, "client", "life", "complete_ns")
    last = {(client, life): complete for client, life, complete in rows}
    return [(end.client, last.get((end.client, end.life), 0), end.at_ns) for end in dead]
