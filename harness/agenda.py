"""The nemesis at work: plays a schedule, fault by fault, and records what was seen."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from time import monotonic_ns

from fencepost.errors import FencepostError
from harness.history import FaultEvent
from nemesis.base import Evidence, Fault, Impact, World
from nemesis.schedule import Planned, Schedule, decode_fault


class Agenda:
    """What is due when. `play` never runs ahead of the clock, and `heal_all` undoes whatever is in force.

    One thread plays everything, so a slow step delays the next one; both clocks, planned and observed, are recorded.
    """

    def __init__(self, schedule: Schedule, world: World, observe: Callable[[FaultEvent], None]) -> None:
        self._world = world
        self._observe = observe
        self._due: list[tuple[float, int, bool, Planned]] = []
        self._in_force: dict[str, tuple[Planned, Fault, Impact]] = {}
        for number, planned in enumerate(schedule.faults):
            heapq.heappush(self._due, (planned.at_ms, number, True, planned))
        self._number = len(schedule.faults)

    @property
    def active(self) -> tuple[str, ...]:
        """The faults in force, in words."""
        return tuple(fault.describe() for _, fault, _ in self._in_force.values())

    def next_ms(self) -> float | None:
        """When the next step is due, in ms since the start; None: nothing is left."""
        return self._due[0][0] if self._due else None

    def play(self, now_ms: float) -> None:
        """Take the steps that are due. A fault is healed its duration after it was in force, never earlier."""
        while self._due and self._due[0][0] <= now_ms:
            _, number, begins, planned = heapq.heappop(self._due)
            if begins:
                late_ms = self._inject(planned, now_ms)
                heapq.heappush(self._due, (planned.at_ms + late_ms + planned.duration_ms, number, False, planned))
            else:
                self._heal(planned.id)

    def heal_all(self) -> None:
        """Undo everything in force, the newest first. A fault that resists does not keep the others from healing; the
        first such error is raised at the end."""
        self._due.clear()
        failure: FencepostError | None = None
        for fault_id in reversed(list(self._in_force)):
            try:
                self._heal(fault_id)
            except FencepostError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _inject(self, planned: Planned, now_ms: float) -> float:
        """How many milliseconds later than planned the fault was in force."""
        fault = decode_fault(planned)
        began_ns = monotonic_ns()
        self._in_force[planned.id] = (planned, fault, Impact())
        impact = fault.inject(self._world, planned.id)
        done_ns = monotonic_ns()
        self._in_force[planned.id] = (planned, fault, impact)
        self._record("injected", planned, fault, impact, began_ns, done_ns, fault.probe(self._world, impact))
        return max(0.0, now_ms - planned.at_ms) + (done_ns - began_ns) / 1e6

    def _heal(self, fault_id: str) -> None:
        planned, fault, impact = self._in_force.pop(fault_id)
        began_ns = monotonic_ns()
        evidence = fault.heal(self._world, fault_id, impact)
        self._record("healed", planned, fault, impact, began_ns, monotonic_ns(), evidence)

    def _record(
        self,
        event: str,
        planned: Planned,
        fault: Fault,
        impact: Impact,
        began_ns: int,
        done_ns: int,
        evidence: Evidence,
    ) -> None:
        self._observe(
            FaultEvent(
                event=event,  # type: ignore[arg-type]
                fault=planned.id,
                nemesis=planned.nemesis,
                what=fault.describe(),
                began_ns=began_ns,
                done_ns=done_ns,
                holds=evidence.holds,
                seen=evidence.seen,
                cut_links=impact.cut_links,
                slow_links=impact.slow_links,
                nodes=impact.nodes,
                paused_clients=impact.paused_clients,
                killed_clients=impact.killed_clients,
            )
        )
