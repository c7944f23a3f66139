"""A control, broken on purpose: a semaphore in which every node counts and a client needs only a majority of the
nodes."""

from __future__ import annotations

from workloads.locks.semaphore_counted import CountedSemaphore


class SemaphoreByMajority(CountedSemaphore):
    """With 5 nodes and 2 permits there are 10 votes, enough for 3 holders with 3 votes each. With one permit nothing is
    broken."""

    def quorum(self) -> int:
        return len(self._pool) // 2 + 1


LOCK = SemaphoreByMajority
