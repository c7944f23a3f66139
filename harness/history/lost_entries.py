"""Entries of acquires that were still waiting, removed by another client or lost together with their key, because it
expired or the node lost it.

An entry is an acquire's if no other call added one of that name. It was not lost if the acquire added any again, or had
put one into a key of that name on another node; what another client took out must have been named.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger

LOST: Final = ("expired", "lost")
_Call = tuple[str, int]
"""A client, or a task of one, and when it began."""


class LostEntry(NamedTuple):
    """`since_ns`: when the acquire began that had added the entry. `change`: the one by which it went."""

    since_ns: int
    change: Change


def lost_entries(ledger: Ledger) -> dict[str, list[LostEntry]]:
    """By client, or task of one."""
    added = _added(ledger)
    calls: defaultdict[str, set[_Call]] = defaultdict(set)
    nodes: defaultdict[tuple[_Call, str], set[str]] = defaultdict(set)
    last: defaultdict[_Call, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for entry, put in zip(ledger.entries, added, strict=True):
        call = put["task"], put["invoke_ns"]
        calls[entry.member].add(call)
        nodes[call, entry.key].add(entry.node)
        last[call] = max(last[call], (put["at_ns"], put["row"]))
    found = defaultdict[str, list[LostEntry]](list)
    for entry, put in zip(ledger.entries, added, strict=True):
        call = put["task"], put["invoke_ns"]
        is_acquires = put["is_in_call"] and put["f"] == "acquire" and len(calls[entry.member]) == 1
        if entry.ended < 0 or not is_acquires:
            continue
        change = ledger.change(entry.ended)
        is_removed = entry.how == "named" and change["client"] != put["client"]
        is_removed = is_removed and last[call] < (change["at_ns"], change["row"])
        is_gone = change["what"] in LOST and len(nodes[call, entry.key]) == 1
        if is_removed or (is_gone and last[call][0] <= max(change["since_ns"], put["at_ns"])):
            found[put["task"]].append(LostEntry(put["invoke_ns"], change))
    return found


def _added(ledger: Ledger) -> list[Change]:
    """By entry, the change that put it there. One that another client puts there again, to change its score, say, stays
    the entry of the client that had put it there before."""
    again = {(entry.node, entry.key, entry.ended): entry for entry in ledger.entries if entry.how == "put again"}
    found = []
    for entry in ledger.entries:
        put = ledger.change(entry.added)
        while (before := again.get((entry.node, entry.key, entry.added))) is not None and before.member == entry.member:
            first = ledger.change(before.added)
            if first["client"] == put["client"]:
                break
            entry, put = before, first
        found.append(put)
    return found
