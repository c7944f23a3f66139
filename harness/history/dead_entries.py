"""Entries that a client put into the lock's state, and that stayed there when the client was gone: a place in a queue,
a member of a set.

The witness does not read what such a key holds, so entries are followed by the commands that changed it. A command that
adds, adds an entry of the client that sent it. One that removes what it names takes out that client's own entries; if
the client has none there, or a script removes from what is no list, any may be gone. A pop takes the first or the last
one of a list. After any other change, and while the node was not watched, nothing is known of the key. An entry is the
dead client's if its request named it by a word that was in no request of another client, or of another life of its own,
that added to the key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from harness.history.fault_windows import FOREVER_NS
from harness.history.key_owners import process_of, rows_of
from harness.history.ledger import ENDINGS
from harness.history.members import ADD, REMOVE, words_of

if TYPE_CHECKING:
    from harness.history.ledger import Ledger
    from harness.history.recorded import Recorded

_FIRST: Final = "LPUSH"
_POP: Final = {"LPOP": 0, "RPOP": -1}
_KEEP: Final = ("ZINCRBY", "PEXPIRE", "EXPIRE", "PEXPIREAT", "EXPIREAT", "PERSIST")
_OF_LIST: Final = "LREM"
_COLUMNS: Final = ("what", "did", "command", "client", "life", "is_seen", "at_ns")
_Life = tuple[str, int]


class Entry(NamedTuple):
    """`did`: the command that put it there, `at_ns`. It was certainly there until `until_ns`."""

    client: str
    life: int
    node: str
    key: str
    did: str
    at_ns: int
    died_ns: int
    until_ns: int = FOREVER_NS


def dead_entries(run: Recorded, ledger: Ledger) -> dict[str, list[Entry]]:
    """By the key that clients ask for, those of clients that were killed, or died."""
    died = {(process_of(end.client), end.life): end.at_ns for end in run.ends if end.how in ("killed", "died")}
    rows = ledger.rows
    adds = rows["did"].isin(ADD).to_numpy(bool) & (rows["request"] >= 0).to_numpy(bool)
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    if not died or not adds.any():
        return found
    asked = sorted(map(str, run.ops["key"].unique()), key=len, reverse=True)
    for (node, key), own in rows.groupby(["node", "key"], observed=True):
        of = asked[0] if len(asked) == 1 else next((name for name in asked if name in str(key)), None)
        if of is not None and (named := _named(run, own[adds[own.index]])) & died.keys():
            found[of] += (entry for entry in _left(str(node), str(key), own, died) if entry[:2] in named)
    return found


def _named(run: Recorded, adding: Any) -> set[_Life]:
    """The lives of clients whose requests that added to the key had a word of their own."""
    wire = run.wire()
    assert wire is not None, "else there would be no ledger"
    senders: defaultdict[str, set[_Life]] = defaultdict(set)
    for life, words in zip(rows_of(adding, "client", "life"), words_of(wire.requests, adding), strict=True):
        for word in words:
            senders[word].add(life)
    return set[_Life]().union(*(lives for lives in senders.values() if len(lives) == 1))


def _left(node: str, key: str, rows: Any, died: dict[_Life, int]) -> Iterator[Entry]:
    """The entries that outlived their clients, as they went; then the ones that stayed."""
    there: list[Entry] = []
    for what, did, command, client, life, is_seen, at_ns in rows_of(rows, *_COLUMNS):
        gone: list[Entry] = []
        if what in ENDINGS or not is_seen or client is None:
            gone, there = there, []
        elif did in ADD:
            entry = Entry(client, life, node, key, did, at_ns, died.get((client, life), FOREVER_NS))
            there = [entry, *there] if did == _FIRST else [*there, entry]
        elif did in _POP:
            gone = [there.pop(_POP[did])] if there else []
        elif did in REMOVE:
            is_named = did in (_OF_LIST, command)
            gone = [entry for entry in there if entry[:2] == (client, life) and is_named] or there
            there = [entry for entry in there if entry not in gone]
        elif did not in _KEEP:
            gone, there = there, []
        yield from (entry._replace(until_ns=at_ns) for entry in gone if entry.died_ns < at_ns)
    yield from (entry for entry in there if entry.died_ns < FOREVER_NS)
