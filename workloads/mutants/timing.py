"""Mutants that calculate time wrongly."""

from __future__ import annotations

from workloads.locks.redlock import Redlock
from workloads.mutants.declared import mutant


@mutant(
    "grants what is over",
    "the lock is held only if some validity is left",
    conditions="slow",
    nemesis="latency",
    finding="no-validity",
)
class GrantsWhatIsOver(Redlock):
    """If the replies took longer than the lease, the keys start to expire before the lock is granted."""

    def is_valid(self, deadline_ns: int, now_ns: int) -> bool:
        return True


@mutant(
    "counts from the answers",
    "validity = TTL − elapsed − drift, where elapsed counts from before the first request",
    conditions="slow",
    nemesis="latency",
    finding="overstated-validity",
)
class CountsFromTheAnswers(Redlock):
    """The nodes count from when they received the request; on slow links that was long before."""

    def deadline_ns(self, requested_ns: int, answered_ns: int, ttl_ms: int) -> int:
        return super().deadline_ns(answered_ns, answered_ns, ttl_ms)


@mutant(
    "forgets the drift",
    "validity = TTL − elapsed − drift",
    conditions="busy",
    nemesis="partition",
    finding="no-drift-allowance",
)
class ForgetsTheDrift(Redlock):
    """If a node's clock runs faster than the client's, the key expires before the validity ends."""

    def drift_ms(self, ttl_ms: int) -> float:
        return 0


@mutant(
    "extends what is over",
    "an extension must be granted within the validity",
    conditions="long work",
    nemesis="latency",
    finding="late-extension",
)
class ExtendsWhatIsOver(Redlock):
    """It held no lease between the end of the old one and the start of the new one, and does not report that."""

    def may_extend(self, lease_deadline_ns: int, now_ns: int) -> bool:
        return True
