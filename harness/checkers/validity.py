"""Did the lock tell a longer validity than it can have had?

The keys expire a TTL after they were set, and they were set after `requested_ns`, the moment before the first request
of the round that granted the lock. So no validity may reach beyond `requested_ns` + TTL. It is held against that with
its *earliest* possible end, from the moment at which it was surely computed or later: what is found then is certain.
Where the lock does not show `requested_ns`, only the bare rule is left: no validity is longer than the TTL.

Libraries count in whole milliseconds; a validity that is too long by less than one is taken for rounding.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from harness.checkers.base import Answer, Finding, Recorded
from harness.sections import derive_leases

ROUNDING_NS: Final = 1_000_000


def check(run: Recorded) -> Answer:
    """Figures: `leases`; `with_request_time`: those that show when they were requested; `overstated`."""
    leases = derive_leases(run.ops, run.faults)
    ttl_ns = run.config.ttl_ms * 1_000_000
    shown = leases["requested_ns"].notna().to_numpy()
    requested = leases["requested_ns"].fillna(0).to_numpy(np.int64)
    by_clock = leases["deadline_min_ns"].to_numpy(np.int64) - requested - ttl_ns
    by_length = leases["validity_ms"].fillna(0).to_numpy(np.float64) * 1e6 - ttl_ns
    excess_ns = np.where(shown, np.maximum(by_clock, by_length), by_length)
    over = np.flatnonzero(excess_ns >= ROUNDING_NS)
    figures: dict[str, object] = {
        "leases": len(leases),
        "with_request_time": int(shown.sum()),
        "overstated": len(over),
    }
    if not len(over):
        return Answer(figures=figures)
    worst = over[np.argmax(excess_ns[over])]
    examples = []
    for row in dict.fromkeys([*over[:3].tolist(), int(worst)]):
        lease = leases.iloc[row]
        examples.append(
            {
                "client": str(lease.client),
                "life": int(lease.life),
                "section": int(lease.section),
                "key": str(lease.key),
                "at_ms": (int(lease.complete_ns) - run.timeline.start_ns) / 1e6,
                "validity_ms": float(lease.validity_ms),
                "too_long_by_ms": float(excess_ns[row]) / 1e6,
            }
        )
    text = (
        f"{len(over)} of {len(leases)} leases were told a validity beyond the end of the TTL ({run.config.ttl_ms} ms), "
        f"by up to {excess_ns[worst] / 1e6:.1f} ms"
    )
    finding = Finding("validity", "overstated-validity", "lock", text, ("lease",), len(over), tuple(examples))
    return Answer(findings=(finding,), figures=figures)
