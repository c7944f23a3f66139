"""Entries in the lock's state, a place in a queue or a member of a set, for which no client would come any more, and
those which another client took out although theirs still waited.

*Dead*: the client was gone, or the acquire that had put the entry there had been cancelled by its user, or had given
up. The witness does not read what such a key holds, so entries are followed by the commands that changed it. A command
that adds, adds an entry of the client that sent it. One that removes what it names takes out the client's own entry of
that name, or else all that the client has there; if it has none, or a script removes from what is no list, any may be
gone. A pop takes the first or the last one of a list. After any other change, and while the node was not watched,
nothing is known of the key. An entry is the dead client's if its request named it by a word that was in no request of
another client, or of another life of its own, that added to the key; it is a call's if that word was in no request of
another call. A key from which nothing was ever taken out holds no places: it may tell who was seen last.

*Removed*: an entry is a client's if the request that added it, in an acquire, has a word that no other call used to
add. It was taken out if a request of another client that removes names that word, and the acquire never added anything
again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

import numpy as np

from fencepost.history import process_of
from harness.history.fault_windows import FOREVER_NS
from harness.history.key_owners import rows_of
from harness.history.ledger import ENDINGS
from harness.history.members import ADD, REMOVE, words_of
from harness.history.sent_after import SLACK_NS

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded


_FIRST: Final = "LPUSH"
POP: Final = {"LPOP": 0, "RPOP": -1}
"""At which end of a list these take an entry out."""
KEEP: Final = ("ZINCRBY", "PEXPIRE", "EXPIRE", "PEXPIREAT", "EXPIREAT", "PERSIST")
"""These leave the entries of a key as they are."""
_OF_LIST: Final = "LREM"
_COLUMNS: Final = ("what", "did", "command", "client", "life", "is_seen", "at_ns")
_Life = tuple[str, int]
_Call = tuple[str, int]
"""A client, or a task of one, and when it began."""


class Left(NamedTuple):
    """An acquire that ended without the lock: its user had cancelled it, or it had given up. `at_ns`: nothing that it
    had asked for was done later. `gone_ns`: by then all that it left should be gone."""

    how: Literal["cancelled", "gave up"]
    at_ns: int
    gone_ns: int


class Entry(NamedTuple):
    """`did`: the command that put it there, `at_ns`. `died_ns`: its client was gone by then. `left`: the call that put
    it there, if that ended without the lock. It was certainly there until `until_ns`. `words`: those of its request
    that no other call used. `call`: the one that put it there, if that matters."""

    client: str
    life: int
    node: str
    key: str
    did: str
    at_ns: int
    words: frozenset[str] = frozenset()
    died_ns: int = FOREVER_NS
    left: Left | None = None
    until_ns: int = FOREVER_NS
    call: _Call = ("", 0)

    @property
    def dead_ns(self) -> int:
        """From then on a lock may not wait for it."""
        return min(self.died_ns, FOREVER_NS if self.left is None else self.left.gone_ns)


def dead_entries(run: Recorded, ledger: Ledger) -> dict[str, list[Entry]]:
    """By the key that clients ask for, those of clients that were killed, or died, and of calls that did not get it."""
    ends = _Ends.of(run)
    rows = ledger.rows
    adds = rows["did"].isin(ADD).to_numpy(bool)
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    if not (ends.died or ends.left) or not adds.any():
        return found
    asked = sorted(map(str, run.ops["key"].unique()), key=len, reverse=True)
    for (node, key), own in rows.groupby(["node", "key"], observed=True):
        of = asked[0] if len(asked) == 1 else next((name for name in asked if name in str(key)), None)
        has_places = own["did"].isin((*REMOVE, *POP)).any()
        if of is not None and has_places and (put := _put(ledger, str(node), str(key), own[adds[own.index]], ends)):
            went = followed(ledger, own, put)
            found[of] += (entry for entry, _ in went if entry.dead_ns < entry.until_ns)
    return found


class _Ends(NamedTuple):
    died: dict[_Life, int]
    left: dict[_Call, Left]

    @classmethod
    def of(cls, run: Recorded) -> Self:
        died = {(process_of(end.client), end.life): end.at_ns for end in run.ends if end.how in ("killed", "died")}
        refused = run.ops[((run.ops["f"] == "acquire") & (run.ops["outcome"] == "fail")).to_numpy(np.bool_)]
        stays_ns = round(run.lease_ms * 1e6) + SLACK_NS
        left = {
            (client, since_ns): Left("gave up", at_ns, at_ns + stays_ns)
            for client, since_ns, at_ns in rows_of(refused, "client", "invoke_ns", "complete_ns")
        }
        cancelled = {(one.client, one.since_ns): Left("cancelled", one.at_ns, one.gone_ns) for one in run.cancelled}
        return cls(died, left | cancelled)


def _put(ledger: Ledger, node: str, key: str, adding: Any, ends: _Ends) -> dict[int, Entry]:
    """By row, what was added to a key; none if none of it may be dead. Only a request with a word of its own shows
    whose the entry is."""
    lives: defaultdict[str, set[_Life]] = defaultdict(set)
    calls: defaultdict[str, set[_Call]] = defaultdict(set)
    columns = ("did", "client", "life", "at_ns", "task", "invoke_ns", "is_in_call")
    words = _words(ledger, adding)
    added = dict(zip(adding.index.tolist(), rows_of(adding, *columns), strict=True))
    for row, (_, client, life, _, task, since_ns, _) in added.items():
        for word in words.get(row, ()):
            lives[word].add((client, life))
            calls[word].add((task, since_ns))
    found, named = {}, {life for some in lives.values() if len(some) == 1 for life in some}
    for row, (did, client, life, at_ns, task, since_ns, is_in_call) in added.items():
        own = frozenset(word for word in words.get(row, ()) if len(calls[word]) == 1)
        call = ends.left.get((task, since_ns)) if own and is_in_call else None
        died_ns = ends.died.get((client, life), FOREVER_NS) if (client, life) in named else FOREVER_NS
        found[row] = Entry(client, life, node, key, did, at_ns, own, died_ns, call)
    return found if any(entry.dead_ns < FOREVER_NS for entry in found.values()) else {}


def _words(ledger: Ledger, changes: Any) -> dict[int, set[str]]:
    """By row whose request is known, the words of it that can name a member."""
    changes = changes[(changes["request"] >= 0).to_numpy(bool)]
    return dict(zip(changes.index.tolist(), words_of(ledger, changes), strict=True))


def followed(ledger: Ledger, rows: Any, put: dict[int, Entry]) -> Iterator[tuple[Entry, int]]:
    """The entries of a key, as they went, with the row of the change; then the ones that stayed, with -1. `put`: by the
    row that added it."""
    removing = _words(ledger, rows[rows["did"].isin(REMOVE)])
    there: list[Entry] = []
    for row, (what, did, command, client, life, is_seen, at_ns) in zip(
        rows.index.tolist(), rows_of(rows, *_COLUMNS), strict=True
    ):
        gone: list[Entry] = []
        if what in ENDINGS or not is_seen or client is None:
            gone, there = there, []
        elif row in put:
            there = [put[row], *there] if did == _FIRST else [*there, put[row]]
        elif did in POP:
            gone = [there.pop(POP[did])] if there else []
        elif did in REMOVE:
            named = did in (_OF_LIST, command)
            own = [entry for entry in there if entry[:2] == (client, life) and named]
            gone = [entry for entry in own if not entry.words.isdisjoint(removing.get(row, ()))] or own or there
            there = [entry for entry in there if entry not in gone]
        elif did not in KEEP:
            gone, there = there, []
        yield from ((entry._replace(until_ns=at_ns), row) for entry in gone)
    yield from ((entry, -1) for entry in there)


class Removed(NamedTuple):
    """`since_ns`: when the acquire began that had added the entry. `change`: the one that took it out."""

    since_ns: int
    change: Change


def removed_entries(ledger: Ledger) -> dict[str, list[Removed]]:
    """By client, or task of one."""
    rows, found = ledger.rows, defaultdict[str, list[Removed]](list)
    known = (rows["request"] >= 0) & rows["is_seen"]
    adding = rows[(known & rows["did"].isin(ADD) & rows["is_in_call"] & (rows["f"] == "acquire")).to_numpy(bool)]
    removing = rows[(known & rows["did"].isin(REMOVE) & rows["key"].isin(adding["key"].unique())).to_numpy(bool)]
    calls: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    last_ns: dict[tuple[str, int], int] = {}
    names = ("task", "invoke_ns", "at_ns")
    for (task, since_ns, at_ns), words in zip(rows_of(adding, *names), words_of(ledger, adding), strict=True):
        last_ns[task, since_ns] = at_ns
        for word in words:
            calls[word].add((task, since_ns))
    processes = dict(rows_of(adding, "task", "client"))
    for row, (client, at_ns), words in zip(
        removing.index.tolist(), rows_of(removing, "client", "at_ns"), words_of(ledger, removing), strict=True
    ):
        own = {call for word in words if len(some := calls.get(word, set())) == 1 for call in some}
        for task, since_ns in own:
            if processes[task] != client and last_ns[task, since_ns] < at_ns:
                found[task].append(Removed(since_ns, ledger.change(row)))
    return found
