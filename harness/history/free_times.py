"""When a key of the lock was certainly free: a majority of the lock's nodes held nothing of it, and no client was
inside or releasing it."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

import numpy as np

from fencepost.quorum import quorum
from harness.history.fault_windows import FOREVER_NS, between, merged
from harness.history.groups import grouped, rows_of

if TYPE_CHECKING:
    from harness.history.recorded import Recorded


def names_of(run: Recorded, key: str) -> Set[str]:
    """What the key is called on the nodes; empty if that is not known."""
    known = run.lock_keys
    if run.ops["key"].nunique() == 1:
        return known
    names = {name for name in known if key in name}
    if run.owners is not None:
        own = run.owners.holdings
        names |= known & set(own["key"][(own["lock_key"] == key).to_numpy(bool)].astype(str).unique())
    return names


def free_times(run: Recorded, names: Set[str], key: str, since_ns: int, until_ns: int) -> list[tuple[int, int]]:
    """Within this time, in order. `names`: what the key is called on the nodes."""
    if run.watched is None or not names:
        return []
    held = run.watched.holdings
    held = held[held["key"].isin(list(names)).to_numpy(bool)]
    taken = grouped((node, (a, b)) for node, a, b in rows_of(held, "node", "from_min_ns", "to_max_ns"))
    changes, nodes = [], run.nodes_of(key)
    for node in nodes:
        unseen = between((window[:2] for window in run.watched.of(node)), 0, FOREVER_NS)
        for began, done in merged([*taken[node], *unseen], since_ns, until_ns):
            changes += [(began, -1), (done, 1)]
    free, majority = len(nodes), quorum(len(nodes))
    busy, at_ns = _used(run, key), since_ns
    for when_ns, change in sorted(changes):
        if free < majority:
            busy.append((at_ns, when_ns))
        free, at_ns = free + change, when_ns
    if free < majority:
        busy.append((at_ns, until_ns))
    return between(busy, since_ns, until_ns)


def _used(run: Recorded, key: str) -> list[tuple[int, int]]:
    """When a client was inside, or was giving the key back."""
    inside = run.sections[(run.sections["key"] == key).to_numpy(np.bool_)]
    given = run.calls("release", key=key)
    used = [*rows_of(inside, "start_ns", "end_ns"), *rows_of(given, "invoke_ns", "complete_ns")]
    return merged(used, 0, FOREVER_NS)
