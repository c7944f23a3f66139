"""Redlock whose validity allows for clocks that differ by ten percent, and not by one.

A lease is a tenth shorter for it. The allowance is what the clocks of nodes and clients may differ by, so it is a
setting of the lock and no constant of nature.
"""

from __future__ import annotations

from workloads.locks.redlock import Redlock


class RedlockWideMargin(Redlock):
    def drift_ms(self, ttl_ms: int) -> float:
        return ttl_ms * 0.1 + 2


LOCK = RedlockWideMargin
