"""Mutants that use their connections wrongly."""

from __future__ import annotations

import threading
import time
from typing import ClassVar

from workloads.connection import SILENT, Connection, Reply
from workloads.locks.redlock import Redlock
from workloads.mutants.declared import mutant

PATIENCE_MS = 60_000
LATER_S = 0.4


@mutant(
    "asks without a time limit",
    "a node has a small part of the lease to reply",
    conditions="busy",
    finding="acquire-overrun",
    source="go-redsync/redsync#80",
)
class AsksWithoutATimeLimit(Redlock):
    """One hung node holds up every client for as long as it hangs."""

    def _ask(self, request: bytes) -> list[Reply]:
        usual_ms, self._pool.timeout_ms = self._pool.timeout_ms, PATIENCE_MS
        try:
            return super()._ask(request)
        finally:
            self._pool.timeout_ms = usual_ms


class _Once(Connection):
    """Is not made again once it ended."""

    def dial(self) -> bool:
        if self.dialled:
            return False
        self.dialled = True
        return super().dial()

    dialled = False


@mutant(
    "never connects again",
    "a connection that ended is made again",
    conditions="busy",
    finding="unavailable-while-free",
    cause="nothing asked",
)
class NeverConnectsAgain(Redlock):
    """After enough short outages it has lost a majority of the nodes for good."""

    WIRE: ClassVar[type[Connection]] = _Once


@mutant(
    "stops at the first silence",
    "the lock is held if a majority granted it, whatever the others do",
    conditions="busy",
    finding="unavailable-while-free",
    cause="absent node",
    source="leandromoreira/redlock-rb#129",
)
class StopsAtTheFirstSilence(Redlock):
    """One node that is down or hung makes every acquire fail."""

    def _ask(self, request: bytes) -> list[Reply]:
        replies = super()._ask(request)
        if any(reply is SILENT for reply in replies):
            raise ConnectionError("a node did not reply")
        return replies


@mutant(
    "asks again in the background",
    "a request that was given up is not sent any more",
    conditions="busy",
    finding="request-after-refusal",
    also={"renewal-after-release": "set again"},
    source="simstudioai/sim#7680",
)
class AsksAgainInTheBackground(Redlock):
    """A node that was out of reach gets the SET when its client has given up, and keeps the key until it expires."""

    def _ask(self, request: bytes) -> list[Reply]:
        replies = super()._ask(request)
        silent = [index for index, reply in enumerate(replies) if reply is SILENT]

        def ask_again() -> None:
            time.sleep(LATER_S)
            for index in silent:
                self._pool.ask(request, only=index)
            self._pool.close()

        if silent:
            threading.Thread(target=ask_again, daemon=True).start()
        return replies
