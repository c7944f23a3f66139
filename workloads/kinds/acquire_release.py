"""Nothing but the lock: acquire it, hold it for a while, release it. For waiting times and fairness."""

from __future__ import annotations

from workloads.workload import Workload


class AcquireRelease(Workload):
    checkers = ("contention",)


WORKLOAD = AcquireRelease()
