"""Short notation for schedules, to be made smaller."""

from __future__ import annotations

from typing import Any

from nemesis.schedule import Planned, PlannedFor, Schedule

ALL_CLIENTS = [f"c{i}" for i in range(1, 5)]


def crash(name: str, at_ms: int, duration_ms: int = 0, nodes: tuple[str, ...] = ("n1",)) -> Planned:
    return Planned(name, at_ms, duration_ms, "crash", {"nodes": list(nodes), "clients": []})


def partition(name: str, at_ms: int, duration_ms: int, links: list[tuple[str, str]]) -> Planned:
    fault: dict[str, Any] = {"shape": "ring", "kind": "drop", "direction": "both", "links": [list(x) for x in links]}
    return Planned(name, at_ms, duration_ms, "partition", fault)


def pause_inside(name: str, at_ms: int, duration_ms: int) -> Planned:
    return Planned(name, at_ms, duration_ms, "pause", {"inside": True, "first": 1, "clients": ALL_CLIENTS})


def schedule(*faults: Planned, duration_ms: int = 20_000, ttl_ms: int = 1_000) -> Schedule:
    topology = PlannedFor(tuple(ALL_CLIENTS), tuple(f"n{i}" for i in range(1, 6)), ttl_ms)
    return Schedule(1, 7, "crash", topology, duration_ms, faults)


def times(of: Schedule) -> list[tuple[str, int, int]]:
    return [(planned.id, planned.at_ms, planned.duration_ms) for planned in of.faults]
