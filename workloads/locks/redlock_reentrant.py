"""Redlock that its holder may acquire again (`--reenter`): it counts, and only the last release frees the keys.

A thread that holds the lock is granted it again for as long as its lease lasts, without asking the nodes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from workloads.base import Lease, LockSettings, NodeAddress
from workloads.locks.redlock import Redlock


class _Counts(threading.local):
    """What one thread holds: by key, its lease and how often it acquired it."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[Lease, int]] = {}


class ReentrantRedlock(Redlock):
    RELEASED_FIRST = True
    """A thread whose lease is over is granted the lock again only when it has released it."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._counts = _Counts()

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        held = self._counts.held
        lease, count = held.get(key, (None, 0))
        if lease is None:
            lease = super().acquire(key, ttl_ms)
        elif lease.deadline_ns is None or time.monotonic_ns() >= lease.deadline_ns:
            return None
        if lease is not None:
            held[key] = lease, count + 1
        return lease

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        extended = super().extend(lease, ttl_ms)
        if extended is not None and lease.key in self._counts.held:
            self._counts.held[lease.key] = extended, self._counts.held[lease.key][1]
        return extended

    def release(self, lease: Lease) -> bool:
        _, count = self._counts.held.pop(lease.key, (lease, 1))
        if self.stays_held(count - 1):
            self._counts.held[lease.key] = lease, count - 1
            return True
        return super().release(lease)

    def stays_held(self, left: int) -> bool:
        """Whether the lock stays held when so many of its acquires have not been released yet."""
        return left > 0


LOCK = ReentrantRedlock
