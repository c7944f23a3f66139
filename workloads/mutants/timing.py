"""Mutants that calculate time wrongly."""

from __future__ import annotations

import time
from dataclasses import replace

from workloads.base import Lease
from workloads.locks.redlock import Redlock
from workloads.locks.set_nx_px_token import SetNxPxToken
from workloads.mutants.declared import mutant


@mutant(
    "grants what is over",
    "the lock is held only if some validity is left",
    conditions="slow",
    finding="no-validity",
    source="mike-marcacci/node-redlock#296",
)
class GrantsWhatIsOver(Redlock):
    """If the replies took longer than the lease, the keys start to expire before the lock is granted."""

    def is_valid(self, deadline_ns: int, now_ns: int) -> bool:
        return True


@mutant(
    "says yes and no more",
    "the lock is held only if some validity is left",
    conditions="slow",
    finding="late-grant",
    cause="expired",
    source="redisson/redisson#624",
)
class SaysYesAndNoMore(Redlock):
    """It looks at no clock, and its user cannot look either."""

    def _lease(self, key: str, value: str, ttl_ms: int, requested_ns: int) -> Lease | None:
        return Lease(key, value)


@mutant(
    "counts from the answers",
    "validity = TTL − elapsed − drift, where elapsed counts from before the first request",
    conditions="slow",
    finding="overstated-validity",
    source="mike-marcacci/node-redlock#167",
)
class CountsFromTheAnswers(Redlock):
    """The nodes count from when they received the request; on slow links that was long before."""

    def deadline_ns(self, requested_ns: int, answered_ns: int, ttl_ms: int) -> int:
        return super().deadline_ns(answered_ns, answered_ns, ttl_ms)


@mutant(
    "forgets the drift",
    "validity = TTL − elapsed − drift",
    conditions="busy",
    finding="no-drift-allowance",
)
class ForgetsTheDrift(Redlock):
    """If a node's clock runs faster than the client's, the key expires before the validity ends."""

    def drift_ms(self, ttl_ms: int) -> float:
        return 0


@mutant(
    "rounds up to seconds",
    "validity = TTL − elapsed − drift",
    conditions="busy",
    finding="overstated-validity",
)
class RoundsUpToSeconds(Redlock):
    """A lease of 500 ms is told as one of a second."""

    def deadline_ns(self, requested_ns: int, answered_ns: int, ttl_ms: int) -> int:
        return super().deadline_ns(requested_ns, answered_ns, -(-ttl_ms // 1000) * 1000)


@mutant(
    "numbers by its clock",
    "a token is larger than any that was granted before",
    conditions="tokens",
    finding="token-not-increasing",
)
class NumbersByItsClock(SetNxPxToken):
    """Sections of the same second have the same token, and no late write can be told from the next holder's."""

    def try_once(self, key: str, ttl_ms: int) -> Lease | None:
        lease = super().try_once(key, ttl_ms)
        return lease and replace(lease, token=int(time.time()))
