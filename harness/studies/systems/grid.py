"""The runs of the comparison of systems: each under every fault, and each with every crowd of clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cluster.backend_registry import everywhere
from harness.campaign.grid import Cell, Grid, Part, check
from harness.studies.systems.table import CROWDS, FAULTS, SYSTEMS, TOKENS, TTL_MS, WITHOUT, Crowd, System, SystemFault

_COMMON: Final = {"cluster": everywhere().name, "ttl": f"{TTL_MS}ms", "require": "lease"}
_UNDER_FAULTS: Final = {
    "clients": "5",
    "keys": "1",
    "hold": "uniform:50ms-150ms",
    "recovery": "3s",
    "least-sections": "1",
    "least-faults": "25",
    "least-reach": "1",
}
"""No run is left out because its system recovers slowly: while a lock is not free yet, faults find no client inside."""
_IN_A_CROWD: Final = {"nemesis": "none", "hold": "0", "recovery": "0", "least-sections": "1", "witness": "off"}


def systems_grid(
    name: str,
    *,
    seeds: int,
    duration: str,
    crowd_duration: str,
    systems: Sequence[System] = SYSTEMS,
    faults: Sequence[SystemFault] = FAULTS,
    crowds: Sequence[Crowd] = CROWDS,
) -> Grid:
    """`duration`: of the load under faults, `crowd_duration`: of that of a crowd. Where nothing else may run, costs
    are measured: with crowds."""
    return check(
        Grid(
            name=name,
            title="Locks on other systems",
            question="How safe, how available and how fast is a lock on each system, and what does it cost?",
            parts=(
                Part(
                    title="under faults",
                    cells=tuple(cell for system in systems for cell in _under_faults(system, faults)),
                    seeds=seeds,
                    options={**_COMMON, **_UNDER_FAULTS, "duration": duration},
                    baseline={"system": "", "fault": "", "data": ""},
                ),
                Part(
                    title="crowds",
                    kind="cost",
                    cells=tuple(_in_a_crowd(system, crowd) for system in systems for crowd in crowds),
                    seeds=seeds,
                    options={**_COMMON, **_IN_A_CROWD, "duration": crowd_duration},
                    baseline={"system": "", "crowd": ""},
                ),
            ),
        )
    )


def _under_faults(system: System, faults: Sequence[SystemFault]) -> Iterator[Cell]:
    for fault in faults:
        for tokens, options in TOKENS.items():
            if tokens == WITHOUT or (fault.with_tokens and system.takes_tokens):
                at = {"system": system.name, "fault": fault.name, "data": tokens}
                yield _cell(at, {**system.options, "nemesis": fault.of(system), **options})


def _in_a_crowd(system: System, crowd: Crowd) -> Cell:
    at = {"system": system.name, "crowd": crowd.name}
    workload = {"workload": "acquire-release"} if system.takes_tokens else {}
    return _cell(at, {**system.options, **workload, "clients": str(crowd.clients), "keys": str(crowd.keys)})


def _cell(at: Mapping[str, str], options: Mapping[str, str]) -> Cell:
    return Cell(" · ".join(at.values()), dict(options), dict(at))
