"""Was a run too disturbed for what a campaign says of it?

Rates are those of a plan: these faults, at these times, against clients that go on at once. A delay is long if it is a
tenth of a TTL, as for a fault that lasts so short (`harness.checkers.coverage`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fencepost.text import milliseconds, number
from harness.checkers.coverage import BRIEF_TTLS
from harness.checkers.disturbance import Figures

_STOLEN_PERCENT: Final = 5.0
"""More than the figures of equal runs on a quiet machine differ from each other."""


def disturbances(of: Figures, ttl_ms: float) -> Iterator[str]:
    """What of a run was too far from its plan, each in a few words; nothing for a run that can be compared."""
    limit_ms = BRIEF_TTLS * ttl_ms
    for who, late in (("clients", of.clients), ("the harness", of.harness)):
        if late and late.p99_ms >= limit_ms:
            yield f"scheduling delay of {who} {milliseconds(late.p99_ms)} (p99)"
    if of.latest and of.latest.late_ms >= limit_ms:
        yield f"a fault was injected {milliseconds(of.latest.late_ms)} late"
    if of.stolen_percent >= _STOLEN_PERCENT:
        yield f"a hypervisor took {number(of.stolen_percent)} % of the processors' time"
