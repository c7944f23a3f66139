"""Redlock that renews its lease by itself (`--renewal`): a thread extends the lease of a holder three times per TTL.

Without `--renewal` it is Redlock. A holder is inside for as long as its newest lease lasts; a renewal that fails is
tried again until then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import ClassVar

from workloads.base import Lease, LockSettings, NodeAddress
from workloads.locks.redlock import Redlock


class RenewingRedlock(Redlock):
    """The thread has connections of its own, like any other."""

    RENEWALS_PER_TTL: ClassVar[int] = 3

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._leases: dict[str, tuple[Lease, int]] = {}
        """By value: the newest lease of each holder, and its TTL."""
        self._changed = threading.Condition()
        self._is_closing = False
        if settings.renewal_ms is not None:
            threading.Thread(target=self._renew, daemon=True).start()

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        lease = super().acquire(key, ttl_ms)
        if lease is not None:
            with self._changed:
                self._leases[lease.value] = lease, ttl_ms
                self._changed.notify()
        return lease

    def is_held(self, lease: Lease) -> bool:
        with self._changed:
            newest, _ = self._leases.get(lease.value, (None, 0))
        return newest is not None and newest.deadline_ns is not None and time.monotonic_ns() < newest.deadline_ns

    def release(self, lease: Lease) -> bool:
        with self._changed:
            self._leases.pop(lease.value, None)
        return super().release(lease)

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        super().close()

    def renewed(self, lease: Lease, ttl_ms: int) -> Lease | None:
        """The lease of one renewal; None if it was refused."""
        return self.extend(lease, ttl_ms)

    def _renew(self) -> None:
        while True:
            with self._changed:
                while not self._leases and not self._is_closing:
                    self._changed.wait()
                if self._is_closing:
                    return
                wait_ms = min(ttl_ms for _, ttl_ms in self._leases.values()) / self.RENEWALS_PER_TTL
                self._changed.wait(wait_ms / 1e3)
                held = list(self._leases.items())
            for value, (lease, ttl_ms) in held:
                newer = self.renewed(lease, ttl_ms)
                with self._changed:
                    if newer is not None and value in self._leases:
                        self._leases[value] = newer, ttl_ms


LOCK = RenewingRedlock
