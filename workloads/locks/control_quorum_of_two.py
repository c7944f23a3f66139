"""A control, broken on purpose: Redlock that is content with two nodes, so that of five two clients can be."""

from __future__ import annotations

from workloads.locks.redlock import Redlock


class QuorumOfTwo(Redlock):
    """With fewer than four nodes two are a majority, and nothing is broken."""

    def quorum(self) -> int:
        return min(2, len(self._pool))


LOCK = QuorumOfTwo
