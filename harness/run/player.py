"""Runs a schedule: injects and heals each fault when it is due, and records what was actually injected.

To inject a fault and to see that it took can take a second, and several faults are in force at once. So each of these
steps is done by a thread of its own, and no fault delays another one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from time import monotonic_ns

import msgspec

from cluster.base import NotInTimeError
from fencepost.history import FaultEvent
from harness.run.active_faults import ActiveFaults
from nemesis.base import Adaptive, Observer, Trigger, World
from nemesis.schedule import Planned, Schedule, decode_fault, encode_fault, last_heal_ms

LOOK_EVERY_MS = 4.0
"""How often an adaptive fault looks at the world, and it is asked whether a fault has been injected."""
MOST_AT_ONCE = 16
"""More steps than this at the same time wait for each other."""


class Player:
    """Keeps the due steps. `play` never runs ahead of the clock, and `heal_all` undoes all active faults.

    Planned and observed times are both recorded. An adaptive fault (`nemesis.base.Adaptive`) looks at the world every
    few milliseconds while it is active. The faults that it triggers are injected like planned faults, with ids derived
    from its own: `f1.1`, `f1.2`, …
    """

    def __init__(
        self,
        schedule: Schedule,
        world: World,
        observe: Callable[[FaultEvent], None],
        threads: Executor | None = None,
    ) -> None:
        """`threads`: what does the steps; by default threads of its own."""
        self._schedule = schedule
        self._world = world
        self._active = ActiveFaults(world, observe)
        self._threads = threads or ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="fault")
        self._injecting: list[tuple[Future[FaultEvent], Planned, float, int]] = []
        self._healing: list[Future[FaultEvent]] = []
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._watches: dict[str, Observer] = {}
        self._played: list[Planned] = []
        self._improvised = False
        self._now_ms = 0.0
        for planned in schedule.faults:
            self._at(planned.at_ms, partial(self._begin, planned))

    @property
    def active(self) -> tuple[str, ...]:
        """The descriptions of the active faults."""
        return self._active.active

    def next_ms(self) -> float | None:
        """When there is something to do next, in ms since the start; None if there is nothing."""
        due_ms = self._due[0][0] if self._due else None
        if not self._injecting:
            return due_ms
        soon_ms = self._now_ms + LOOK_EVERY_MS
        return soon_ms if due_ms is None else min(due_ms, soon_ms)

    def play(self, now_ms: float) -> None:
        """Take the steps that are due. A fault is healed when its full duration has passed since it took effect. Raises
        what injecting or healing a fault raised."""
        self._now_ms = now_ms
        self._collect()
        while self._due and self._due[0][0] <= now_ms:
            _, _, step = heapq.heappop(self._due)
            step(now_ms)
            self._collect()

    def played(self) -> Schedule | None:
        """What was injected, if it differs from the plan: an ordinary schedule, with the times at which an adaptive
        fault found its opportunities. None for a schedule without an adaptive fault."""
        if not self._improvised:
            return None
        return msgspec.structs.replace(self._schedule, faults=tuple(self._played))

    def heal_all(self) -> None:
        """Undo all active faults; see `ActiveFaults.heal_all`. Raises the first error of a step under way as well."""
        self._due.clear()
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        self._threads.shutdown(wait=True)
        try:
            self._active.heal_all()
        finally:
            self._collect()

    def _at(self, due_ms: float, step: Callable[[float], None]) -> None:
        heapq.heappush(self._due, (due_ms, next(self._order), step))

    def _begin(self, planned: Planned, now_ms: float) -> None:
        fault = decode_fault(planned)
        if isinstance(fault, Adaptive):
            self._active.inject(planned.id, planned.nemesis, fault)
            end_ms = now_ms + planned.duration_ms
            self._at(end_ms, partial(self._end, planned.id))
            self._improvised = True
            self._watches[planned.id] = fault.observe(self._world)
            self._look(planned.id, end_ms, count(1), now_ms)
        else:
            asked_ns = monotonic_ns()
            inject = partial(self._active.inject, planned.id, planned.nemesis, fault, planned.duration_ms)
            injecting = self._threads.submit(inject)
            self._injecting.append((injecting, planned, now_ms, asked_ns))
            self._played.append(msgspec.structs.replace(planned, at_ms=round(now_ms)))

    def _collect(self) -> None:
        """Plan the end of the faults that have been injected."""
        done = [each for each in self._injecting if each[0].done()]
        self._injecting = [each for each in self._injecting if each not in done]
        for injecting, planned, asked_ms, asked_ns in done:
            event = injecting.result()
            # It may have waited for other faults, and then lasts as long as planned from when it took effect.
            took_ms = (event.done_ns - asked_ns) / 1e6
            self._at(asked_ms + took_ms + planned.duration_ms, partial(self._end, planned.id))
        healed = [each for each in self._healing if each.done()]
        self._healing = [each for each in self._healing if each not in healed]
        for healing in healed:
            with suppress(NotInTimeError):  # then it stays active, and `heal_all` heals it
                healing.result()

    def _look(self, fault_id: str, end_ms: float, numbers: count[int], now_ms: float) -> None:
        watch = self._watches.get(fault_id)
        if watch is None:
            return
        for trigger in watch.look(now_ms):
            if now_ms + (trigger.duration_ms or 0) > last_heal_ms(self._schedule.duration_ms):
                continue  # like a drawn fault; the heal at the end would bring a node back before its delay is over
            self._begin(_as_planned(trigger, f"{fault_id}.{next(numbers)}", now_ms, end_ms), now_ms)
        self._at(now_ms + LOOK_EVERY_MS, partial(self._look, fault_id, end_ms, numbers))

    def _end(self, fault_id: str, _now_ms: float) -> None:
        if watch := self._watches.pop(fault_id, None):
            watch.close()
        self._healing.append(self._threads.submit(self._active.heal, fault_id))


def _as_planned(trigger: Trigger, fault_id: str, now_ms: float, end_ms: float) -> Planned:
    lasts_ms = end_ms - now_ms if trigger.duration_ms is None else trigger.duration_ms
    return Planned(fault_id, round(now_ms), max(0, int(lasts_ms)), trigger.nemesis, encode_fault(trigger.fault))
