"""Locks whose keys have no time to live, or whose time to live is not the end of the lease.

Some keep the expiry in the value, and the next client sets its own: what a dead client left does no harm. Others
have no expiry at all, and what a dead client left keeps all clients out for good. The key alone does not tell them
apart, but later clients do: with the first kind, their tries replace the key on each node that they reach.

So it is if the keys have a time to live that only clears up after the last client (`are_taken_over`): the lock's value,
or another key, tells when a lease is over, or a release leaves a mark that the lock is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fencepost.quorum import quorum
from harness.history.calls import GRANTS
from harness.history.fault_windows import hits_link
from harness.history.groups import rows_of, where
from harness.history.key_owners import Owners
from harness.history.sent_after import SLACK_NS

if TYPE_CHECKING:
    from harness.history.ledger import Ledger
    from harness.history.recorded import Recorded

LEAST_TRIES: Final = 3
"""A single try may have been refused for a reason of its own."""


class Leftover(NamedTuple):
    """A key on a node, from when on any lease of it was certainly over until it was certainly still there."""

    node: str
    from_ns: int
    to_ns: int


def has_no_expiry(owners: Owners) -> bool:
    """Whether no key of the lock was ever seen with a time to live."""
    return not any(ttl_ms is not None for told in owners.holdings["ttls_ms"] for ttl_ms in told)


def are_taken_over(owners: Owners, ledger: Ledger, *, from_holders: bool = False) -> bool:
    """Whether an acquire that was granted set its value over another client's, which was still there. `from_holders`:
    over one that no release had set."""
    rows = ledger.rows
    is_grants = {"cause": "request", "by": "client", "f": "acquire", "outcome": "ok", "is_in_call": True}
    keys = owners.holdings["key"].unique().tolist()
    own = where(rows, rows["of"] >= 0, what="overwritten", key=keys, **is_grants)
    before = rows.iloc[own["of"].to_numpy(np.int64)]
    known = before["client"].notna().to_numpy(bool)
    if from_holders:
        known = known & before["f"].isin([*GRANTS, "extend", "held"]).to_numpy(bool)
    return bool((known & (before["client"].to_numpy(object) != own["client"].to_numpy(object))).any())


def nodes_in_the_way(run: Recorded, owners: Owners, key: str, left: Sequence[Leftover]) -> frozenset[str]:
    """The nodes on which these leftovers of the key left no majority free while tries for it were refused."""
    used = where(owners.holdings, lock_key=key)["node"].nunique()
    refused = [try_ for try_ in _refused(run, key) if _is_in_the_way(run, try_, left, used)]
    if len(refused) < LEAST_TRIES:
        return frozenset()
    return frozenset(node for try_ in refused for node in _nodes(left, try_.from_ns, try_.to_ns))


class _Try(NamedTuple):
    client: str
    from_ns: int
    to_ns: int


def _refused(run: Recorded, key: str) -> Iterator[_Try]:
    return map(_Try._make, rows_of(run.calls("acquire", "fail", key), "client", "invoke_ns", "complete_ns"))


def _nodes(left: Sequence[Leftover], from_ns: int, to_ns: int) -> set[str]:
    """The keys that had a leftover all this time."""
    return {one.node for one in left if one.from_ns <= from_ns and to_ns <= one.to_ns}


def _is_in_the_way(run: Recorded, try_: _Try, left: Sequence[Leftover], used: int) -> bool:
    """Whether the leftovers left no majority free, and no fault can have kept the client from the nodes."""
    nodes = _nodes(left, try_.from_ns, try_.to_ns)
    if used - len(nodes) >= quorum(used):
        return False
    return not any(
        try_.client in event.paused_clients or any(hits_link(event, try_.client, node) for node in nodes)
        for event in run.faults_within(try_.from_ns - SLACK_NS, try_.to_ns)
    )
