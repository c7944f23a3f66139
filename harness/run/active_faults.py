"""The active faults: each is injected, probed and recorded, and later healed, probed and recorded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from threading import Lock
from time import monotonic_ns
from typing import NamedTuple

import msgspec

from cluster.base import NotInTimeError
from fencepost.errors import FencepostError
from fencepost.history import FaultEvent, Impact
from nemesis.base import Evidence, Fault, HasClass, LateError, World


class _Held(NamedTuple):
    """`healing_since_ns`: when it was first tried to heal it, if that took too long."""

    nemesis: str
    fault: Fault
    impact: Impact
    healing_since_ns: int | None = None


class ActiveFaults:
    """The faults that were injected and are not healed yet, by id. `observe` receives every recorded event.

    Different faults may be injected and healed by different threads at the same time. Those of links alone do not wait
    for each other; those of nodes and clients do, because what one does to a process another one must not do at the
    same time. `observe` is called by the threads that inject and heal.
    """

    def __init__(self, world: World, observe: Callable[[FaultEvent], None]) -> None:
        self._world = world
        self._observe = observe
        self._held: dict[str, _Held] = {}
        self._on_processes = Lock()

    @property
    def active(self) -> tuple[str, ...]:
        """The descriptions of the active faults."""
        return tuple(held.fault.describe() for held in list(self._held.values()))

    def __contains__(self, fault_id: str) -> bool:
        return fault_id in self._held

    def inject(self, fault_id: str, nemesis: str, fault: Fault) -> FaultEvent:
        """Inject a fault and probe whether it took effect; returns the recorded event. If it was not injected in time,
        the event says so; as far as it got, it stays until it is healed, like any other."""
        with self._alone(fault):
            began_ns = monotonic_ns()
            self._held[fault_id] = _Held(nemesis, fault, Impact())
            try:
                impact = fault.inject(self._world, fault_id)
            except LateError as late:
                held = self._held[fault_id] = _Held(nemesis, fault, late.impact)
                missed = Evidence(False, f"not injected in time: {late}")
                return self._record("injected", fault_id, held, began_ns, monotonic_ns(), missed)
            done_ns = monotonic_ns()
        held = self._held[fault_id] = _Held(nemesis, fault, impact)
        return self._record("injected", fault_id, held, began_ns, done_ns, fault.probe(self._world, impact))

    def heal(self, fault_id: str) -> FaultEvent:
        """Heal a fault, and probe that it is gone; returns the recorded event. Raises NotInTimeError if that took long
        or was called off: then the fault stays active."""
        return self._heal(fault_id, None, self._world)

    def heal_all(self) -> None:
        """Undo all active faults, the newest first. If one cannot be healed, the others still are; the first error is
        raised at the end.

        All links are healed together first. If that fails, nothing waits for links any more.
        """
        began_ns = monotonic_ns()
        failure: FencepostError | None = None
        out_of_time = self._world.out_of_time
        try:
            self._world.cluster.heal(out_of_time)
        except FencepostError as error:
            failure = error
        world = replace(self._world, called_off=out_of_time if failure is None else lambda: True)
        for fault_id in reversed(list(self._held)):
            try:
                self._heal(fault_id, began_ns, world)
            except FencepostError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _heal(self, fault_id: str, began_ns: int | None, world: World) -> FaultEvent:
        """`began_ns`: None for now, or when healing it along with others began."""
        held = self._held.pop(fault_id)
        with self._alone(held.fault):
            began_ns = held.healing_since_ns or began_ns or monotonic_ns()
            try:
                evidence = held.fault.heal(world, fault_id, held.impact)
            except NotInTimeError:
                self._held[fault_id] = held._replace(healing_since_ns=began_ns)
                raise
            done_ns = monotonic_ns()
        return self._record("healed", fault_id, held, began_ns, done_ns, evidence)

    def _alone(self, fault: Fault) -> AbstractContextManager[object]:
        """While it is held, no other fault touches a node or a client, if this one does."""
        hits_processes = getattr(fault, "nodes", ()) or getattr(fault, "clients", ()) or not getattr(fault, "links", ())
        return self._on_processes if hits_processes else nullcontext()

    def _record(
        self, event: str, fault_id: str, held: _Held, began_ns: int, done_ns: int, evidence: Evidence
    ) -> FaultEvent:
        recorded = FaultEvent(
            event=event,  # type: ignore[arg-type]
            fault=fault_id,
            nemesis=held.nemesis,
            what=held.fault.describe(),
            began_ns=began_ns,
            done_ns=done_ns,
            holds=evidence.holds,
            seen=evidence.seen,
            fault_class=held.fault.fault_class if isinstance(held.fault, HasClass) else held.nemesis,
            **msgspec.structs.asdict(held.impact),
        )
        self._observe(recorded)
        return recorded
