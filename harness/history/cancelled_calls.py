"""What cancelled calls left on the nodes.

A call that is cancelled ends where it is: it may have set a key, or taken a place in a queue, and no part of the lock
need know. That is the user's doing. What such a call left may be there until its TTL is over, so the lock is not free
meanwhile; what is there for longer is the lock's fault. A call that changed nothing on any node left nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from fencepost.history import process_of
from harness.history.groups import Ints, rows_of
from harness.history.sent_after import SLACK_NS

if TYPE_CHECKING:
    from harness.history.ledger import Ledger
    from harness.history.run_tables import RunTables

_LEAVES: Final = ("set", "overwritten", "prolonged", "changed")


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
    if "cancelled" not in run.ops:  # recorded before calls could be cancelled
        return ()
    ops = run.ops[run.ops["cancelled"].to_numpy(np.bool_)]
    changes = _Effects.of(run, ledger) if len(ops) else None
    stays_ns = round(run.lease_ms * 1e6) + SLACK_NS
    found = []
    for f, client, key, since_ns, ended_ns in rows_of(ops, "f", "client", "key", "invoke_ns", "complete_ns"):
        # What was under way when the call was cancelled comes to the proxy a little later.
        last_ns = 0 if changes is None else changes.last_ns(process_of(client), since_ns, ended_ns + SLACK_NS)
        if last_ns is None and f == "acquire":
            continue
        at_ns = max(last_ns or 0, ended_ns)
        found.append(CancelledCall(str(client), str(key), since_ns, at_ns, at_ns + stays_ns))
    return tuple(found)


class _Effects(NamedTuple):
    """By process, when the proxy received the requests that left something on a node, in order, and when the node had
    done that."""

    of_process: dict[str, tuple[Ints, Ints]]

    @classmethod
    def of(cls, run: RunTables, ledger: Ledger | None) -> Self | None:
        """None if not every change is on record."""
        if ledger is None:
            return None
        rows = ledger.rows
        rows = rows[(rows["what"].isin(_LEAVES) & (rows["from_client_ns"] >= 0)).to_numpy(bool)]
        by_process = rows.sort_values("from_client_ns").groupby("client", observed=True)
        return cls(
            {
                str(of): (own["from_client_ns"].to_numpy(np.int64), own["at_ns"].to_numpy(np.int64))
                for of, own in by_process
            }
        )

    def last_ns(self, process: str, since_ns: int, until_ns: int) -> int | None:
        """When a node had done the last of what was sent in this time; None if nothing was."""
        if process not in self.of_process:
            return None
        sent, done = self.of_process[process]
        first, end = np.searchsorted(sent, since_ns), np.searchsorted(sent, until_ns, "right")
        return int(done[first:end].max()) if first < end else None
