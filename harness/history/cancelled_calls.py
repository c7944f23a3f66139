"""What cancelled calls left on the nodes.

A call that is cancelled ends where it is: it may have set a key, or taken a place in a queue, and no part of the lock
need know. That is the user's doing. What such a call left may be there until its TTL is over, so the lock is not free
meanwhile; what is there for longer is the lock's fault. A call that changed nothing on any node left nothing. Nor did
one whose requests each lowered a count as often as they raised it: its clients had no place left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fencepost.history import process_of
from harness.history.groups import Ints, rows_of, where
from harness.history.sent_after import SLACK_NS

if TYPE_CHECKING:
    from harness.history.ledger import Ledger
    from harness.history.run_tables import RunTables

_LEAVES: Final = ("set", "overwritten", "prolonged", "changed")
_NOTHING: Final = (np.zeros(0, np.int64), np.zeros(0, np.int64))


class CancelledCall(NamedTuple):
    """`since_ns`: it began. `at_ns`: nothing that it had asked for was done later. `gone_ns`: by then all that it left
    should be gone."""

    client: str
    key: str
    since_ns: int
    at_ns: int
    gone_ns: int


def cancelled_calls(run: RunTables, ledger: Ledger | None) -> tuple[CancelledCall, ...]:
    """The calls that may have left something on a node, in the order of `ops`: each release, because the keys of its
    section may have stayed, and the acquires that changed a key, or all where the changes are not on record."""
    ops = where(run.ops, cancelled=True)
    effects = _effects(ledger) if len(ops) and ledger is not None else None
    stays_ns = round(run.lease_ms * 1e6) + SLACK_NS
    found = []
    for f, client, key, since_ns, ended_ns in rows_of(ops, "f", "client", "key", "invoke_ns", "complete_ns"):
        at_ns = ended_ns
        if effects is not None:
            # What was under way when the call was cancelled comes to the proxy a little later.
            # What no task is known to have sent may be any task's of its process.
            own = (effects.get(sender, _NOTHING) for sender in {client, process_of(client)})
            sent, done = map(np.concatenate, zip(*own, strict=True))
            left = done[(sent >= since_ns) & (sent <= ended_ns + SLACK_NS)]
            if f == "acquire" and not len(left):
                continue
            at_ns = int(left.max(initial=ended_ns))
        found.append(CancelledCall(str(client), str(key), since_ns, at_ns, at_ns + stays_ns))
    return tuple(found)


def _effects(ledger: Ledger) -> dict[str, tuple[Ints, Ints]]:
    """By task, or by process where that is not known, when the proxy received requests that left something on a node,
    and when the node had done that."""
    rows = where(ledger.rows, ledger.rows["from_client_ns"] >= 0, what=_LEAVES)
    rows = rows[~_is_taken_back(rows)]
    times = rows[["from_client_ns", "at_ns"]].groupby(rows["sender"].where(rows["sender"].notna(), rows["client"]))
    return {str(of): (own["from_client_ns"].to_numpy(np.int64), own["at_ns"].to_numpy(np.int64)) for of, own in times}


def _is_taken_back(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Which changes are of requests that did nothing but raise a count by one and lower it again, or the other way
    round."""
    step = rows["did"].map({"INCR": 1, "DECR": -1})
    whole = step.groupby([rows["request"], rows["key"]], observed=True)
    is_count = whole.transform("count") == whole.transform("size")
    return (is_count & (whole.transform("sum") == 0)).to_numpy(bool)
