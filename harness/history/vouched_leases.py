"""For how long leases certainly lasted that a lock renews by itself, where it was asked whether it still held them.

If it says yes, its client had a lease when it asked. Where the lock keeps its key on one node, and the client's request
in that call changed the key there (set it, prolonged it, or put the client's entry into it again), the answer speaks of
that moment: the client had a lease when the request came to the node.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from harness.history.groups import rows_of, where

if TYPE_CHECKING:
    from harness.history.recorded import Recorded


def with_vouched_leases(run: Recorded) -> Recorded:
    """The run with these leases as ones that lasted at least until then."""
    ledger = run.whole_ledger
    if run.config.renewal_ms is None or ledger is None:
        return run
    is_yes = {"f": "held", "outcome": "ok", "is_in_call": True, "by": "client"}
    own = where(ledger.rows, **is_yes, what=("set", "changed", "prolonged"))
    sections = run.sections.copy(deep=False)
    deadline = sections["deadline_min_ns"].to_numpy(np.int64).copy()
    meant = ledger.calls.meant_by(own["key"].astype(str).unique())
    for key, to_node_ns, *owner in rows_of(own, "key", "to_node_ns", "task", "life", "section"):
        place = run.places.get(tuple(owner))
        if place is None or sections["key"].iloc[place] not in meant[str(key)]:
            continue
        if len(ledger.nodes_of[str(sections["key"].iloc[place])]) == 1:
            deadline[place] = max(deadline[place], to_node_ns)
    sections["deadline_min_ns"] = deadline
    return replace(run, sections=sections)
