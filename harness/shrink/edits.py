"""Smaller schedules: fewer faults, less time, fewer names. Pure functions. Faults keep their ids, so that each can be
traced to the original schedule.

This module knows about a fault only its targets (`nemesis.base.Targets`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from nemesis.schedule import Planned, Schedule, decode_fault, encode_fault


def only(schedule: Schedule, ids: Collection[str]) -> Schedule:
    """The schedule with only these faults."""
    return _with(schedule, tuple(planned for planned in schedule.faults if planned.id in ids))


def window(schedule: Schedule, from_ms: int, to_ms: int, lead_ms: int) -> Schedule:
    """The faults clipped to this window, and a load that starts `lead_ms` before it and ends with it."""
    to_ms = min(to_ms, schedule.duration_ms)
    begin_ms = max(0, from_ms - lead_ms)
    inside = []
    for planned in schedule.faults:
        if planned.at_ms < to_ms and from_ms < max(planned.end_ms, planned.at_ms + 1):
            at_ms, end_ms = max(planned.at_ms, from_ms), min(planned.end_ms, to_ms)
            inside.append(_moved(planned, at_ms - begin_ms, end_ms - at_ms))
    return _with(schedule, tuple(inside), to_ms - begin_ms)


def until(schedule: Schedule, end_ms: int) -> Schedule:
    """The schedule with a load that ends earlier."""
    return window(schedule, 0, end_ms, 0)


@dataclass(frozen=True, slots=True)
class Stretch:
    """An interval of the load in which no fault starts or ends. `last`: there is no fault after it."""

    from_ms: int
    to_ms: int
    last: bool

    @property
    def ms(self) -> int:
        return self.to_ms - self.from_ms


def stretches(schedule: Schedule) -> tuple[Stretch, ...]:
    """The load cut at every start and every end of a fault. Shortening one moves faults closer together, shortens those
    that are active in it, or both. Nothing else can be done to the times without changing the order of events."""
    ends = {planned.end_ms for planned in schedule.faults} | {planned.at_ms for planned in schedule.faults}
    moments = sorted({0, schedule.duration_ms} | {ms for ms in ends if ms < schedule.duration_ms})
    return tuple(Stretch(begin, end, end == schedule.duration_ms) for begin, end in pairwise(moments))


def shortened(schedule: Schedule, stretch: Stretch, to_ms: int) -> Schedule:
    """The schedule with one stretch shortened to `to_ms`, and everything after it moved up accordingly."""
    saved_ms = stretch.ms - to_ms

    def moved(ms: int) -> int:
        return ms if ms <= stretch.from_ms else max(ms - saved_ms, stretch.from_ms)

    faults = []
    for planned in schedule.faults:
        at_ms = moved(planned.at_ms)
        faults.append(_moved(planned, at_ms, moved(planned.end_ms) - at_ms))
    return _with(schedule, tuple(faults), moved(schedule.duration_ms))


def squeezed(schedule: Schedule, longest_ms: int) -> Schedule:
    """The schedule with no stretch longer than this."""
    for stretch in reversed(stretches(schedule)):
        if stretch.ms > longest_ms:
            schedule = shortened(schedule, stretch, longest_ms)
    return schedule


@dataclass(frozen=True, slots=True)
class FaultNames:
    """Names that a fault hits, some of which may be removed. `field`: of its `Targets`. `place`: which of a link's two
    names, None for a list."""

    fault_id: str
    field: str
    place: int | None
    names: tuple[str, ...]


def targets(schedule: Schedule) -> Iterator[FaultNames]:
    """The names that each fault hits, if there is more than one. A fault that is aimed when it is injected names the
    candidates rather than the victims; it is left unchanged."""
    for planned in schedule.faults:
        hit = decode_fault(planned).targets
        if hit.are_candidates:
            continue
        for field, place, found in (
            ("nodes", None, hit.nodes),
            ("clients", None, hit.clients),
            ("links", 1, (node for _, node in hit.links)),
            ("links", 0, (client for client, _ in hit.links)),
        ):
            if len(names := tuple(dict.fromkeys(found))) > 1:
                yield FaultNames(planned.id, field, place, names)


def hitting(schedule: Schedule, whom: FaultNames, names: Collection[str]) -> Schedule:
    """The schedule in which that fault hits only these names."""

    def reduced(planned: Planned) -> Planned:
        fault = decode_fault(planned)
        old = fault.targets._asdict()[whom.field]
        kept = tuple(hit for hit in old if (hit if whom.place is None else hit[whom.place]) in names)
        if len(kept) == len(old):
            return planned
        fewer: dict[str, Any] = {whom.field: kept}
        return msgspec.structs.replace(planned, fault=encode_fault(fault.only(fault.targets._replace(**fewer))))

    return _with(schedule, tuple(reduced(each) if each.id == whom.fault_id else each for each in schedule.faults))


def _moved(planned: Planned, at_ms: int, duration_ms: int) -> Planned:
    return msgspec.structs.replace(planned, at_ms=at_ms, duration_ms=duration_ms)


def _with(schedule: Schedule, faults: tuple[Planned, ...], duration_ms: int | None = None) -> Schedule:
    duration_ms = schedule.duration_ms if duration_ms is None else duration_ms
    faults = tuple(sorted(faults, key=lambda planned: planned.at_ms))
    return msgspec.structs.replace(schedule, faults=faults, duration_ms=duration_ms)
