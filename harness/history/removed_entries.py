"""Entries of clients that still waited, which another client took out of the lock's state: a place in a queue, say.

An entry is a client's if the request that added it, in an acquire, has a word that no other call used to add. It was
taken out if a request of another client that removes names that word, and the acquire never added anything again.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from harness.history.key_owners import rows_of
from harness.history.members import ADD, REMOVE, words_of

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger


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
