"""Whether a request certainly left its client after an event there, rather than being delayed on its way.

The proxy says when a request came to it. It may have left its client earlier: by as long as processes may stand still
unnoticed, while a fault keeps the proxy from reading the link, or while the proxy itself stands still. And what a
thread had begun before the end may come after it: the client was stopped in between, or during a round over
all nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from harness.history.fault_windows import hits_link, meet
from harness.history.groups import Ints

if TYPE_CHECKING:
    from harness.history.change_causes import WireRecord
    from harness.history.run_tables import RunTables

SLACK_NS: Final = 250_000_000
"""For so long something may be late although nothing is on record that held it up."""
_AT_WORK_NS: Final = SLACK_NS // 2
"""The proxy stood still for no longer than between two requests that are not further apart."""


@dataclass(frozen=True, slots=True)
class SentAfter:
    """`opened`: when each connection was made. `came`: when the proxy received requests, of any client, in order."""

    opened: Mapping[int, int]
    came: Ints
    run: RunTables

    @classmethod
    def of(cls, run: RunTables, wire: WireRecord) -> SentAfter:
        numbers, opened = (wire.connections[name].to_pylist() for name in ("connection", "opened_ns"))
        came = np.sort(wire.requests["from_client_ns"].drop_null().to_numpy().astype(np.int64))
        return cls(dict(zip(numbers, opened, strict=True)), came, run)

    def is_certain(self, request: Mapping[str, Any], end_ns: int, *, is_round: bool) -> bool:
        """Whether the request, a change of the ledger, left its client after the end. `is_round`: requests to all nodes
        may have been under way then, one after the other, so that a fault of any link may have held it up."""
        client, sent_ns, since_ns = str(request["client"]), int(request["from_client_ns"]), end_ns - SLACK_NS
        if sent_ns <= end_ns + SLACK_NS or not self._is_at_work(end_ns, sent_ns):
            return False
        if meet(self.run.waits_of(client), since_ns, sent_ns):
            return False
        faults = self.run.faults_within(since_ns, sent_ns)
        if any(client in event.halted_clients for event in faults):
            return False
        if not is_round and self.opened[request["connection"]] > end_ns + SLACK_NS:
            return True
        nodes = self.run.nodes if is_round else (str(request["node"]),)
        return not any(hits_link(event, client, node) for event in faults for node in nodes)

    def _is_at_work(self, from_ns: int, to_ns: int) -> bool:
        """Whether the proxy received requests all the time between the two."""
        first, last = np.searchsorted(self.came, [from_ns, to_ns])
        times = np.concatenate(([from_ns], self.came[first:last], [to_ns]))
        return bool((np.diff(times) <= _AT_WORK_NS).all())
