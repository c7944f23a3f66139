"""Which keys were left on the nodes with no owner, and for how long?

A key has an owner from the try that set it until that client has nothing to do with it any more: its release has
returned, its try was refused or given up, or the client is gone. What is still there then keeps others out until it
expires. Every lock with an expiry may leave some; how many, and what of, differs from library to library.

Only what is certain is counted: from the latest moment at which an owner can have ended to the earliest at which the
key can have gone. Where the lock does not show what it sets, and for tries that were refused, the owner is whoever was
trying when the key was set, the last of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from harness.history.key_holdings import Watched
from harness.history.key_owners import Tries, find_owners, left_ns, rows_of
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

Cause = Literal["not released", "given up", "client gone", "set too late", "back from disk"]
CAUSES: Final[tuple[Cause, ...]] = ("not released", "given up", "client gone", "set too late", "back from disk")
"""The release did not reach the node. A refused or failed try was not taken back there. The owner was killed. The SET
took effect when its owner had given it up. The node went down with a key that had an owner, and came back with one that
had none."""

OUTLASTS_BY_MS: Final = 100
"""What a node may need to expire a key is not held against a lock."""


@dataclass(slots=True)
class _Orphan:
    """One key on one node without an owner. Where the witness was blind meanwhile, that time is left out."""

    node: str
    key: str
    cause: Cause
    from_ns: int
    length_ns: int


def check(run: Recorded) -> Answer:
    """Figures, where the nodes were watched: `count`, `total_ms`, `longest_ms` of the orphans; `by_cause`: how many;
    `by_node`: the first three and `causes` for each node, and `unseen_ms`: for how long of the load it was out of the
    witness's sight; `owners`: "shown" where the lock shows what it sets, "by time" where it does not."""
    watched = run.watched
    if watched is None or watched.watch_windows.empty:
        return Answer(figures={"watched": False, "asked": run.config.witness == "on"})
    orphans, are_shown = _orphans(run, watched)
    figures: dict[str, object] = {
        "watched": True,
        **_sizes(orphans),
        "by_cause": {cause: sum(o.cause == cause for o in orphans) for cause in CAUSES},
        "by_node": {
            node: {
                **_sizes(own := [orphan for orphan in orphans if orphan.node == node]),
                "causes": {cause: sum(o.cause == cause for o in own) for cause in CAUSES},
                "unseen_ms": _unseen_ms(run, watched, node),
            }
            for node in run.config.node_names
        },
        "owners": "shown" if are_shown else "by time",
    }
    return Answer(findings=_outlasting(run, orphans), figures=figures)


def _orphans(run: Recorded, watched: Watched) -> tuple[list[_Orphan], bool]:
    owners = find_owners(run, watched)
    left = left_ns(run)
    ended = run.sections["ended"].astype(str).tolist()
    tries = {key: Tries(run, key, owners, left) for key in owners.holdings["lock_key"].unique()}
    orphans: list[_Orphan] = []
    chains: dict[tuple[str, str], _Chain] = {}
    for row in map(_Row._make, rows_of(owners.holdings, *_Row._fields)):
        before = chains.get((row.node, row.key))
        if row.began == "seen" and before is not None and before.value is not None and before.value == row.value:
            # The same value again, behind a time in which the node was out of sight.
            chain = before
        else:
            chain = chains[row.node, row.key] = _Chain(row.value, row.from_min_ns, row.from_max_ns, row.run)
        if row.section >= 0:
            free_ns, is_gone = int(left[row.section]), ended[row.section] != "release"
            cause: Cause = "client gone" if is_gone else "not released"
        else:
            free_ns, is_gone = tries[row.lock_key].last_owner(chain.set_max_ns)
            cause = "client gone" if is_gone else "given up"
        if chain.set_min_ns > free_ns:
            cause = "set too late"
        elif row.run > chain.run >= 0:
            cause = "back from disk"
        from_ns = max(free_ns, row.from_max_ns)
        length_ns = min(row.to_min_ns, row.expires_ns) - from_ns
        if length_ns <= 0:
            continue
        if chain.orphan is None:
            chain.orphan = _Orphan(row.node, row.lock_key, cause, from_ns, 0)
            orphans.append(chain.orphan)
        chain.orphan.length_ns += length_ns
    return orphans, owners.are_shown


class _Row(NamedTuple):
    """A row of `Owners.holdings`, as far as it matters here."""

    node: str
    key: str
    lock_key: str
    value: str | None
    section: int
    began: str
    from_min_ns: int
    from_max_ns: int
    to_min_ns: int
    expires_ns: int
    run: int


@dataclass(slots=True)
class _Chain:
    """One value of one key on one node, also behind times in which the node was out of sight."""

    value: str | None
    set_min_ns: int
    set_max_ns: int
    run: int
    """The run of the node's server in which it was first seen; -1 where that is not known."""
    orphan: _Orphan | None = None


def _sizes(orphans: Iterable[_Orphan]) -> dict[str, object]:
    lengths = [orphan.length_ns for orphan in orphans]
    return {"count": len(lengths), "total_ms": sum(lengths) / 1e6, "longest_ms": max(lengths, default=0) / 1e6}


def _unseen_ms(run: Recorded, watched: Watched, node: str) -> float:
    """For how long of the time from the start to the clients' end the node was not in sight."""
    start_ns, end_ns = run.timeline.start_ns, run.timeline.end_ns
    own = watched.watch_windows[watched.watch_windows["node"] == node]
    if end_ns is None:
        end_ns = int(watched.watch_windows["to_ns"].max())
    began = np.clip(own["from_ns"].to_numpy(np.int64), start_ns, end_ns)
    ended = np.clip(own["to_ns"].to_numpy(np.int64), start_ns, end_ns)
    return float(max(0, end_ns - start_ns) - int((ended - began).sum())) / 1e6


def _outlasting(run: Recorded, orphans: list[_Orphan]) -> tuple[Finding, ...]:
    """A key that nobody owns is gone a TTL later, unless the lock gave it more."""
    ttl_ns = run.config.ttl_ms * 1_000_000
    over = [orphan for orphan in orphans if orphan.length_ns > ttl_ns + OUTLASTS_BY_MS * 1_000_000]
    if not over:
        return ()
    longest = max(over, key=lambda orphan: orphan.length_ns)
    text = (
        f"{len(over)} {'key' if len(over) == 1 else 'keys'} without an owner stayed on a node for longer than the TTL "
        f"({run.config.ttl_ms} ms), up to {longest.length_ns / 1e6:.0f} ms"
    )
    examples = tuple(
        {
            "node": orphan.node,
            "key": orphan.key,
            "cause": orphan.cause,
            "from_ms": (orphan.from_ns - run.timeline.start_ns) / 1e6,
            "for_ms": orphan.length_ns / 1e6,
        }
        for orphan in [longest, *(orphan for orphan in over[:3] if orphan is not longest)]
    )
    return (Finding("orphans", "orphan-outlasts-ttl", "lock", text, (), len(over), examples),)
