"""Mutants whose value does not identify the owner."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import ClassVar, Final

from workloads.base import Lease, LockSettings, NodeAddress
from workloads.locks.redlock import Redlock
from workloads.mutants.declared import CONDITIONS, CONTROLS, mutant

_AWAKE_EVERY_S: Final = 0.02


@mutant(
    "one value for all",
    "the value is unique among all clients",
    conditions="busy",
    finding="overlap",
    cause="shared value",
)
class OneValueForAll(Redlock):
    """Comparing it proves nothing: a client's failed attempt frees another client's lock."""

    def unique_value(self) -> str:
        return "locked"


class TwoThreads(Redlock):
    """The reference in a process with a second thread. That thread competes for the same lock over its own connections
    and releases it immediately. It is as correct as the reference. The second thread's sections are not judged, since
    it does nothing in them."""

    def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings) -> None:
        super().__init__(nodes, settings)
        self._other = self._Other(nodes, settings, self)
        self._wanted: tuple[str, int] | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._second_thread, daemon=True)
        self._thread.start()

    class _Other(Redlock):
        """The second thread's lock; its values come from the same place as those of the first thread."""

        ROUNDS: ClassVar[int] = 1

        def __init__(self, nodes: Sequence[NodeAddress], settings: LockSettings, first: Redlock) -> None:
            super().__init__(nodes, settings)
            self._first = first

        def unique_value(self) -> str:
            return self._first.unique_value()

    def acquire(self, key: str, ttl_ms: int) -> Lease | None:
        self._wanted = key, ttl_ms
        return super().acquire(key, ttl_ms)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        super().close()

    def _second_thread(self) -> None:
        while not self._closing.wait(_AWAKE_EVERY_S):
            if self._wanted is None:
                continue
            lease = self._other.acquire(*self._wanted)
            if lease is not None:
                try:
                    self._other.release(lease)
                except TimeoutError:  # cut off: the keys expire
                    continue
        self._other.close()


@mutant(
    "one value per second",
    "the value is unique among all requests",
    conditions="busy",
    finding="overlap",
    cause="shared value",
    source="errorception/redis-lock#29",
)
class OneValuePerSecond(Redlock):
    """Clients that ask in the same second free each other's lock."""

    def unique_value(self) -> str:
        return f"locked at {int(time.time())}"


@mutant(
    "one value per process",
    "the value is unique among all requesters, not only among processes",
    conditions="busy",
    finding="overlap",
    cause="another task's release",
    source="teableio/teable#3238",
)
class OneValuePerProcess(TwoThreads):
    """One thread's failed attempt frees the lock that another thread of the process holds."""

    def unique_value(self) -> str:
        return f"process {os.getpid()}"


CONTROLS["two threads, busy"] = ("workloads.mutants:TwoThreads", CONDITIONS["busy"])


@mutant(
    "draws from a hundred",
    "the value is unique among all requests",
    conditions="briefly",
    finding="shared-value",
    source="php-lock/lock#9",
)
class DrawsFromAHundred(Redlock):
    """Two clients now and then draw the same value, and one of them frees the other's lock."""

    def unique_value(self) -> str:
        return f"holder {self._settings.rng.randrange(100)}"
