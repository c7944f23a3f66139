"""When does it matter that a node forgets a lock? When without that node no majority knows of the lock any more."""

from __future__ import annotations

from collections.abc import Collection

from cluster.server import Holdings

Held = tuple[str, bytes | None]
"""A live key and its value: one client's lock."""


def losing_quorum(holdings: Holdings, going: Collection[str], majority: int) -> frozenset[Held]:
    """The locks that a majority of the nodes holds now, and would no longer hold without the nodes `going` down. For
    one node: the locks that exactly a majority holds, that node among them."""
    holders = holders_of(holdings)
    return frozenset(lock for lock, nodes in holders.items() if len(nodes) >= majority > len(nodes.difference(going)))


def holders_of(holdings: Holdings) -> dict[Held, frozenset[str]]:
    """The nodes that hold each lock."""
    found: dict[Held, set[str]] = {}
    for node, keys in holdings.items():
        for lock in keys.items():
            found.setdefault(lock, set()).add(node)
    return {lock: frozenset(nodes) for lock, nodes in found.items()}
