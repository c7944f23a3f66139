"""A control, broken on purpose: Redlock that measures by the wall clock how long an acquire took, so that a clock that
steps back hides the time that has passed."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from workloads.base import LockSettings, NodeAddress
from workloads.locks.redlock import Redlock


class _LastRequest(threading.local):
    wall_ns = 0
    """When this thread sent its last request, by the wall clock."""


class LeaseByWallClock(Redlock):
    """With a clock that steps back during the acquire, it grants a lease that is over."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._asked = _LastRequest()

    def acquire_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        self._asked.wall_ns = time.time_ns()
        return super().acquire_request(key, value, ttl_ms)

    def extend_request(self, key: str, value: str, ttl_ms: int) -> bytes:
        self._asked.wall_ns = time.time_ns()
        return super().extend_request(key, value, ttl_ms)

    def deadline_ns(self, requested_ns: int, answered_ns: int, ttl_ms: int) -> int:
        took_ns = time.time_ns() - self._asked.wall_ns
        return super().deadline_ns(answered_ns - took_ns, answered_ns, ttl_ms)


LOCK = LeaseByWallClock
