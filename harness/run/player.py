"""Runs a schedule: injects and heals each fault when it is due, and records what was actually injected."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count

import msgspec

from cluster.base import NotInTimeError
from fencepost.history import FaultEvent
from harness.run.active_faults import ActiveFaults
from nemesis.base import Adaptive, Observer, Trigger, World
from nemesis.schedule import Planned, Schedule, decode_fault

LOOK_EVERY_MS = 4.0
"""How often an adaptive fault looks at the world."""


class Player:
    """Keeps the due steps. `play` never runs ahead of the clock, and `heal_all` undoes all active faults.

    One thread does everything, so a slow step delays the next one; planned and observed times are both recorded. An
    adaptive fault (`nemesis.base.Adaptive`) looks at the world every few milliseconds while it is active. The faults
    that it triggers are injected like planned faults, with ids derived from its own: `f1.1`, `f1.2`, …
    """

    def __init__(self, schedule: Schedule, world: World, observe: Callable[[FaultEvent], None]) -> None:
        self._schedule = schedule
        self._world = world
        self._active = ActiveFaults(world, observe)
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._watches: dict[str, Observer] = {}
        self._played: list[Planned] = []
        self._improvised = False
        for planned in schedule.faults:
            self._at(planned.at_ms, partial(self._begin, planned))

    @property
    def active(self) -> tuple[str, ...]:
        """The descriptions of the active faults."""
        return self._active.active

    def next_ms(self) -> float | None:
        """When the next step is due, in ms since the start; None if there is none."""
        return self._due[0][0] if self._due else None

    def play(self, now_ms: float) -> None:
        """Take the steps that are due. A fault is healed when its full duration has passed since it took effect."""
        while self._due and self._due[0][0] <= now_ms:
            _, _, step = heapq.heappop(self._due)
            step(now_ms)

    def played(self) -> Schedule | None:
        """What was injected, if it differs from the plan: an ordinary schedule, with the times at which an adaptive
        fault found its opportunities. None for a schedule without an adaptive fault."""
        if not self._improvised:
            return None
        return msgspec.structs.replace(self._schedule, faults=tuple(self._played))

    def heal_all(self) -> None:
        """Undo all active faults; see `ActiveFaults.heal_all`."""
        self._due.clear()
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        self._active.heal_all()

    def _at(self, due_ms: float, step: Callable[[float], None]) -> None:
        heapq.heappush(self._due, (due_ms, next(self._order), step))

    def _begin(self, planned: Planned, now_ms: float) -> None:
        fault = decode_fault(planned)
        event = self._active.inject(planned.id, planned.nemesis, fault)
        late_ms = max(0.0, now_ms - planned.at_ms) + (event.done_ns - event.began_ns) / 1e6
        end_ms = planned.at_ms + late_ms + planned.duration_ms
        self._at(end_ms, partial(self._end, planned.id))
        if isinstance(fault, Adaptive):
            self._improvised = True
            self._watches[planned.id] = fault.observe(self._world)
            self._look(planned.id, end_ms, count(1), now_ms)
        else:
            self._played.append(msgspec.structs.replace(planned, at_ms=round(now_ms)))

    def _look(self, fault_id: str, end_ms: float, numbers: count[int], now_ms: float) -> None:
        watch = self._watches.get(fault_id)
        if watch is None:
            return
        for trigger in watch.look(now_ms):
            self._begin(_as_planned(trigger, f"{fault_id}.{next(numbers)}", now_ms, end_ms), now_ms)
        self._at(now_ms + LOOK_EVERY_MS, partial(self._look, fault_id, end_ms, numbers))

    def _end(self, fault_id: str, _now_ms: float) -> None:
        if watch := self._watches.pop(fault_id, None):
            watch.close()
        with suppress(NotInTimeError):  # then it stays active, and `heal_all` heals it
            self._active.heal(fault_id)


def _as_planned(trigger: Trigger, fault_id: str, now_ms: float, end_ms: float) -> Planned:
    lasts_ms = end_ms - now_ms if trigger.duration_ms is None else trigger.duration_ms
    data = msgspec.json.decode(msgspec.json.encode(trigger.fault))
    return Planned(fault_id, round(now_ms), max(0, int(lasts_ms)), trigger.nemesis, data)
