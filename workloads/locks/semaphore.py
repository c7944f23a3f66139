"""A semaphore by majority: `--permits` slots for each key, each slot a Redlock of its own.

The slots of the key `k` are the keys `k#1`, `k#2` … on the nodes. A client takes the first slot that it gets, in random
order. A slot has at most one holder for as long as Redlock excludes, so there are never more holders than slots, and a
minority of the nodes may be down.
"""

from __future__ import annotations

import time
from dataclasses import replace

from workloads.base import Lease
from workloads.locks.redlock import Redlock


class Semaphore(Redlock):
    """The lease's `handle` is the name of its slot on the nodes."""

    def tries_per_round(self) -> int:
        return self._settings.permits

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        """The lease of the first slot that was granted, or None after `ROUNDS` rounds in which every slot was
        refused."""
        rng, permits = self._settings.rng, self._settings.permits
        for round_number in range(self.ROUNDS):
            if round_number > 0:
                time.sleep(rng.uniform(0, self._settings.retry_delay_ms) / 1e3)
            for number in rng.sample(range(1, permits + 1), permits):
                slot = f"{key}#{number}"
                lease = self.try_once(slot, ttl_ms)
                if lease is not None:
                    return replace(lease, key=key, handle=slot)
        return None

    def extend(self, lease: Lease, ttl_ms: int) -> Lease | None:
        extended = super().extend(_in_slot(lease), ttl_ms)
        return None if extended is None else replace(extended, key=lease.key, handle=lease.handle)

    def release(self, lease: Lease) -> bool:
        return super().release(_in_slot(lease))

    def describe(self) -> dict[str, object]:
        return super().describe() | {"permits": self._settings.permits}


def _in_slot(lease: Lease) -> Lease:
    """The same lease under the name that its slot has on the nodes."""
    assert isinstance(lease.handle, str)
    return replace(lease, key=lease.handle)


LOCK = Semaphore
