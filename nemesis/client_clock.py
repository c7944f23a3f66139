"""A wrong clock for a client: a lock that measures its lease by the wall clock believes what the clock says.

Only scripts use it, whose clients have a clock of their own in an experiment with `clocks=True`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from cluster.wall_clock import RIGHT, ClockAhead, ClockSetting
from fencepost.errors import UsageError
from fencepost.history import Impact
from nemesis.base import Evidence, World


@runtime_checkable
class HasClock(Protocol):
    """An optional ability of a client: its wall clock can be set."""

    def set_clock(self, setting: ClockSetting) -> None:
        """Takes effect at once, also in a foreign library. Raises UsageError if it has no clock of its own."""
        ...

    def clock_ahead(self) -> ClockAhead | None:
        """How far its clock is ahead, as a process with the same clock reads it; None if the client does not use that
        clock."""
        ...


class WrongClientClock(msgspec.Struct, frozen=True):
    """The wall clock of `client` is ahead by `ahead_ms` (behind, if negative)."""

    client: str
    ahead_ms: int

    def describe(self) -> str:
        return f"clock of {self.client}: {abs(self.ahead_ms)} ms {'ahead' if self.ahead_ms > 0 else 'behind'}"

    def inject(self, world: World, owner: str) -> Impact:
        self._clock(world).set_clock(ClockSetting(self.ahead_ms))
        return Impact()

    def probe(self, world: World, impact: Impact) -> Evidence:
        return self._seen(world, self.ahead_ms)

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        self._clock(world).set_clock(RIGHT)
        return self._seen(world, 0)

    def _clock(self, world: World) -> HasClock:
        client = world.clients[self.client]
        if not isinstance(client, HasClock):
            raise UsageError(f"{self.client} has no wall clock that can be set; only clients of a script have one")
        return client

    def _seen(self, world: World, wanted_ms: int) -> Evidence:
        ahead = self._clock(world).clock_ahead()
        if ahead is None:
            return Evidence(False, f"{self.client} does not use its clock")
        middle_ms = (ahead.least_ms + ahead.most_ms) / 2
        seen = f"a process with the clock of {self.client} is {middle_ms:+.0f} ms ahead"
        return Evidence(ahead.may_be(wanted_ms, wanted_ms), seen)
