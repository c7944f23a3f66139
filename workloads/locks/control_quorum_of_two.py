"""A control, broken on purpose: Redlock with a quorum of two, so that two clients can each have a quorum of five
nodes."""

from __future__ import annotations

from workloads.locks.redlock import Redlock


class QuorumOfTwo(Redlock):
    """With fewer than four nodes, two are a majority and nothing is broken."""

    def quorum(self) -> int:
        return min(2, len(self._pool))


LOCK = QuorumOfTwo
