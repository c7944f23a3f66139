"""Redlock that waits for a fixed delay before it asks again: clients that collided once may collide again and again.

The delay is as long as that of Redlock is on average, so that the two differ in nothing but chance.
"""

from __future__ import annotations

from workloads.locks.redlock import Redlock


class RedlockFixedDelay(Redlock):
    def delay_ms(self) -> float:
        return self._settings.retry_delay_ms / 2


LOCK = RedlockFixedDelay
