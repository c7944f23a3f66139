"""Keys that calls set and delete again before they end, where one call left the key on a node for good.

So is a mutex of the lock's own: each call that finds it free sets it, does its work and deletes it. Without a time to
live it stays when its client dies, or the deletion is lost, and every later call finds it taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import rows_of
from harness.history.lock_keys import lock_keys

if TYPE_CHECKING:
    import pandas as pd

    from harness.history.ledger import Change
    from harness.history.recorded import Recorded

LEAST_TIMES: Final = 3


class LeftMutex(NamedTuple):
    """`taken`: the change that set it last, in a call that had ended. `times`: how often a call had set and deleted it.
    `asked`: how many requests of other clients named it since."""

    taken: Change
    times: int
    asked: int


def left_mutex(run: Recorded, by_ns: int) -> LeftMutex | None:
    """That for which most requests asked in vain; None if no call had left one by then."""
    ledger = run.ledger
    if ledger is None or run.watched is None:
        return None
    found, own = [], lock_keys(run, ledger)
    for (node, key), rows in ledger.rows.groupby(["node", "key"], observed=True):
        row, times = (None, 0) if key in own else _left(rows)
        if row is None or times < LEAST_TIMES or not _has_no_expiry(run, str(node), str(key)):
            continue
        taken = ledger.change(row)
        asked = len(ledger.sent.of_others(str(taken["client"]), str(node), str(key), int(taken["at_ns"])))
        if taken["complete_ns"] <= by_ns and asked:
            found.append(LeftMutex(taken, times, asked))
    return max(found, key=lambda one: one.asked, default=None)


def _left(rows: pd.DataFrame) -> tuple[int | None, int]:
    """Of one key on one node: the change that took it for good, and how often a call had deleted what it took. None if
    it is free, or most of the calls that took it did not delete it."""
    taken, times, others = None, 0, 0
    names = ("what", "call", "is_in_call")
    for row, (what, call, is_in_call) in zip(rows.index.tolist(), rows_of(rows, *names), strict=True):
        if what == "set" and taken is None and is_in_call:
            taken = row, call
        elif what in ("deleted", "expired", "evicted") and taken is not None:
            is_own = what == "deleted" and call == taken[1]
            times, others, taken = times + is_own, others + (not is_own), None
    return (taken[0] if taken is not None and times > others else None), times


def _has_no_expiry(run: Recorded, node: str, key: str) -> bool:
    """Whether what the node held of the key last had no time to live."""
    assert run.watched is not None
    holdings = run.watched.holdings
    own = holdings[((holdings["node"] == node) & (holdings["key"] == key)).to_numpy(bool)]
    return len(own) > 0 and bool(own["expires_ns"].iloc[-1] >= FOREVER_NS)
