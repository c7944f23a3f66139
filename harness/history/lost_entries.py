"""Entries of clients that still waited, which went with the key that they were in: it expired, or the node lost it.

An entry is a call's if the request that added it has a word that no other call used to add. It was certainly in the
key (`harness.history.entries`), the call had added none to a key of that name on another node, and no later
request that adds names its word.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.history.entries import Entry, Removed, followed
from harness.history.key_owners import rows_of
from harness.history.members import ADD, words_of

if TYPE_CHECKING:
    from harness.history.ledger import Ledger

LOST: Final = ("expired", "lost")
_COLUMNS: Final = ("task", "invoke_ns", "key", "node", "did", "client", "life", "at_ns", "f", "is_in_call")


def lost_entries(ledger: Ledger) -> dict[str, list[Removed]]:
    """By client, or task of one."""
    rows, found = ledger.rows, defaultdict[str, list[Removed]](list)
    adding = rows[(rows["did"].isin(ADD) & (rows["request"] >= 0)).to_numpy(bool)]
    ended = rows[(rows["what"].isin(LOST) & rows["key"].isin(adding["key"].unique())).to_numpy(bool)]
    if ended.empty:
        return found
    calls, nodes = defaultdict[str, set[tuple[str, int]]](set), defaultdict[tuple[str, int, str], set[str]](set)
    last_ns: dict[str, int] = {}
    put: dict[int, tuple[Entry, bool]] = {}
    for row, (task, since_ns, key, node, did, client, life, at_ns, f, is_in_call), words in zip(
        adding.index.tolist(), rows_of(adding, *_COLUMNS), words_of(ledger, adding), strict=True
    ):
        put[row] = (
            Entry(client, life, node, key, did, at_ns, frozenset(words), call=(task, since_ns)),
            (is_in_call and f == "acquire"),
        )
        nodes[task, since_ns, key].add(node)
        for word in words:
            calls[word].add((task, since_ns))
            last_ns[word] = at_ns
    for node, key in ended[["node", "key"]].drop_duplicates().itertuples(index=False):
        of_key = rows[((rows["node"] == node) & (rows["key"] == key)).to_numpy(bool)]
        entries = {row: entry for row, (entry, is_its) in put.items() if is_its and row in of_key.index}
        for entry, row in followed(ledger, of_key, entries):
            change = ledger.change(row) if row >= 0 else None
            own = [word for word in entry.words if len(calls[word]) == 1]
            if change is None or change["what"] not in LOST or not own or len(nodes[*entry.call, entry.key]) > 1:
                continue
            if max(last_ns[word] for word in own) <= max(int(change["since_ns"]), entry.at_ns):
                found[entry.call[0]].append(Removed(entry.call[1], change))
    return found
