"""The active faults: each is injected, probed and recorded, and later healed, probed and recorded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from threading import Lock
from time import monotonic_ns, sleep
from typing import Final, NamedTuple

import msgspec

from cluster.base import NotInTimeError
from fencepost.errors import FencepostError
from fencepost.history import FaultEvent, Impact
from fencepost.text import listed
from nemesis.base import Evidence, Fault, HasClass, LateError, World
from nemesis.elections import Election, await_election, leader_of
from nemesis.node_down import LONGEST_LEASE

_LOOK_EVERY_S: Final = 0.02
_ELECTION_LIMIT_MS: Final = 5_000.0


class _ActiveFault(NamedTuple):
    """`not_before_ns`: before then it is not healed. `healing_since_ns`: when it was first tried to heal it, if that
    took too long."""

    nemesis: str
    fault: Fault
    impact: Impact
    not_before_ns: int = 0
    healing_since_ns: int | None = None


class ActiveFaults:
    """The faults that were injected and are not healed yet, by id. `observe` receives every recorded event.

    Different faults may be injected and healed by different threads at the same time. Those of links alone do not wait
    for each other; those of nodes and clients do, because what one does to a process another one must not do at the
    same time. One that only waits for its moment keeps no other waiting (`World.sleep`). `observe` is called by the
    threads that inject and heal.
    """

    def __init__(self, world: World, observe: Callable[[FaultEvent], None]) -> None:
        self._world = world
        self._observe = observe
        self._held: dict[str, _ActiveFault] = {}
        self._on_processes = Lock()
        self._is_group = world.cluster.members is not None

    @property
    def active(self) -> tuple[str, ...]:
        """The descriptions of the active faults."""
        return tuple(held.fault.describe() for held in list(self._held.values()))

    def __contains__(self, fault_id: str) -> bool:
        return fault_id in self._held

    def inject(self, fault_id: str, nemesis: str, fault: Fault, lasts_ms: float = 0) -> FaultEvent:
        """Inject a fault and probe whether it took effect; returns the recorded event. If it was not injected in time,
        the event says so; as far as it got, it stays until it is healed, like any other.

        `lasts_ms`: what it is planned for. Nodes that it takes down stay down that long from the moment at which they
        were seen down, or for the longest lease if that is less: whatever ends the fault early, a node that was to
        outlast its leases does.
        """
        world = self._letting_others(self._world, fault)
        with self._alone(fault):
            leader = leader_of(self._world) if self._is_group and fault.targets.nodes else None
            began_ns = monotonic_ns()
            self._held[fault_id] = _ActiveFault(nemesis, fault, Impact())
            try:
                impact = fault.inject(world, fault_id)
            except LateError as late:
                done_ns = monotonic_ns()
                held = self._held[fault_id] = self._taken(nemesis, fault, late.impact, done_ns, lasts_ms)
                missed = Evidence(False, f"not injected in time: {late}")
                return self._record("injected", fault_id, held, began_ns, done_ns, missed)
            done_ns = monotonic_ns()
        held = self._held[fault_id] = self._taken(nemesis, fault, impact, done_ns, lasts_ms)
        evidence = fault.probe(self._world, impact)
        election = await_election(self._world, leader, impact, done_ns, min(lasts_ms, _ELECTION_LIMIT_MS))
        return self._record("injected", fault_id, held, began_ns, done_ns, evidence, election)

    def _taken(self, nemesis: str, fault: Fault, impact: Impact, done_ns: int, lasts_ms: float) -> _ActiveFault:
        if impact.how_down is None:
            return _ActiveFault(nemesis, fault, impact)
        down_ms = min(lasts_ms, LONGEST_LEASE.ms(self._world.topology.ttl_ms))
        return _ActiveFault(nemesis, fault, impact, not_before_ns=done_ns + round(down_ms * 1e6))

    def heal(self, fault_id: str) -> FaultEvent:
        """Heal a fault, and probe that it is gone; returns the recorded event. Raises NotInTimeError if that took long
        or was called off: then the fault stays active."""
        return self._heal(fault_id, None, self._world)

    def heal_all(self) -> None:
        """Undo all active faults, the newest first, and last of all those whose nodes must stay down a while longer. If
        one cannot be healed, the others still are; the first error is raised at the end.

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
        newest_first = list(reversed(self._held))
        for fault_id in sorted(newest_first, key=lambda each: self._held[each].not_before_ns > began_ns):
            try:
                self._heal(fault_id, began_ns, world)
            except FencepostError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _heal(self, fault_id: str, began_ns: int | None, world: World) -> FaultEvent:
        """`began_ns`: None for now, or when healing it along with others began."""
        self._await_leases(self._held[fault_id], world)
        held = self._held.pop(fault_id)
        with self._alone(held.fault):
            began_ns = held.healing_since_ns or max(began_ns or monotonic_ns(), held.not_before_ns)
            try:
                evidence = held.fault.heal(self._letting_others(world, held.fault), fault_id, held.impact)
            except NotInTimeError:
                self._held[fault_id] = held._replace(healing_since_ns=began_ns)
                raise
            done_ns = monotonic_ns()
        return self._record("healed", fault_id, held, began_ns, done_ns, evidence)

    def _await_leases(self, held: _ActiveFault, world: World) -> None:
        """Raises NotInTimeError if the user asked to stop, or the time for healing is over; its nodes stay down."""
        while (left_ns := held.not_before_ns - monotonic_ns()) > 0:
            if world.out_of_time():
                raise NotInTimeError(f"{listed(held.impact.nodes)} stayed down, because leases granted there still ran")
            sleep(min(left_ns / 1e9, _LOOK_EVERY_S))

    def _alone(self, fault: Fault) -> AbstractContextManager[object]:
        """While it is held, no other fault touches a node or a client, if this one does."""
        return self._on_processes if self._is_of_processes(fault) else nullcontext()

    @staticmethod
    def _is_of_processes(fault: Fault) -> bool:
        hit = fault.targets
        return bool(hit.nodes or hit.clients or not hit.links)

    def _letting_others(self, world: World, fault: Fault) -> World:
        """In which a fault that is alone waits, without keeping other faults waiting."""
        return replace(world, sleep=self._let_others) if self._is_of_processes(fault) else world

    def _let_others(self, seconds: float) -> None:
        """Called by a fault that is alone."""
        self._on_processes.release()
        try:
            sleep(seconds)
        finally:
            self._on_processes.acquire()

    def _record(
        self,
        event: str,
        fault_id: str,
        held: _ActiveFault,
        began_ns: int,
        done_ns: int,
        evidence: Evidence,
        election: Election | None = None,
    ) -> FaultEvent:
        recorded = FaultEvent(
            event=event,  # type: ignore[arg-type]
            fault=fault_id,
            nemesis=held.nemesis,
            what=held.fault.describe(),
            began_ns=began_ns,
            done_ns=done_ns,
            holds=evidence.holds,
            seen=evidence.seen if election is None else f"{evidence.seen}; {election}",
            led_by=election and election.before,
            elected=election and election.leader,
            elected_after_ms=election and election.after_ms,
            fault_class=held.fault.fault_class if isinstance(held.fault, HasClass) else held.nemesis,
            **msgspec.structs.asdict(held.impact),
        )
        self._observe(recorded)
        return recorded
