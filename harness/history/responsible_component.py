"""Which part of a lock failed when two clients were inside within their leases.

A library can do everything right and still let two clients in: a server that restarts without its keys, or whose clock
runs fast, breaks what the library relies on. So does a client's wall clock that steps, if the library measures by it.
Its author contests these, so they are counted apart from the library's own mistakes. The nodes show it: at the time
of the overlap, certainly no majority of them held the value of one of the two sections, and each that did not has its
reason.
"""

from __future__ import annotations

from collections import Counter

from fencepost.quorum import quorum
from harness.history.parts_that_fail import PARTS, Part
from harness.history.quorum_support import OF_THE_LOCK, Backing, Loss


def failing_part(backing: Backing, sections: tuple[int, int], from_ns: int, to_ns: int) -> Part:
    """Which part failed in the overlap of these two sections, by place, in this time: the library's own requests are
    enough to explain it; or nodes also had to forget keys that they were seen with, or to expire them early; or its
    client had to measure wrong for how long they live."""
    found: set[Part] = {_part(backing, section, from_ns, to_ns) for section in sections}
    return next(part for part in PARTS if part in found)


def _part(backing: Backing, section: int, from_ns: int, to_ns: int) -> Part:
    stretch = backing.unbacked(section, from_ns, to_ns) if section in backing.owners.values else None
    if stretch is None:
        return "unknown"
    # A node that was never seen with the value may have forgotten it, or was never given it.
    seen: Counter[Loss] = Counter(
        loss for node, loss in stretch.losses if loss != "lost by the node" or backing.was_seen_with(node, section)
    )
    forgot, early = seen["lost by the node"], seen["expired early"]
    used = len(backing.nodes(section))
    left = used - sum(seen[loss] for loss in OF_THE_LOCK)
    majority = quorum(used)
    if left < majority:
        is_misled = left + seen["expired"] >= majority and backing.is_misled(section, to_ns)
        return "client's clock" if is_misled else "library"
    if left - forgot - early >= majority:
        return "unknown"
    return "servers" if forgot >= early else "clock"
