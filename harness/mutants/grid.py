"""The runs that show what finds a mutant: every mutant under every kind of faults, and the correct locks as controls.

A mutant's own faults (those that reliably find it, by its declaration) get several seeds and a minute; the others show
what else finds it, in less time. A correct lock is played through the same loads and faults.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from fencepost.errors import UsageError
from harness.campaign.grid import Cell, Grid, Part, check
from workloads.mutants import CONTROLS, MUTANTS, Conditions

LIMIT_MS: Final = 60_000
"""The time within which a mutant must be found by its own faults."""
OWN, ELSEWHERE, REFERENCE = "its own faults", "other faults", "correct locks"


def mutants_grid(seeds: int, first_seed: int, cluster: str, *, quick: bool, only: Collection[str] = ()) -> Grid:
    """`seeds`: of the mutants' own faults. The quick form leaves out other faults, and plays the correct locks only
    where a mutant must be found. `only`: the mutants and correct locks to run, all if empty. Raises UsageError for
    seeds that are none, and for a name that nobody has."""
    for name in only:
        if name not in MUTANTS and name not in CONTROLS:
            raise UsageError(f"--only {name!r} is no mutant; they are {', '.join((*MUTANTS, *CONTROLS))}")
    own = tuple(_cell(m.name, m.lock, m.conditions, m.nemesis) for m in MUTANTS.values())
    elsewhere = tuple(
        _cell(m.name, m.lock, m.conditions, nemesis)
        for m in MUTANTS.values()
        for nemesis in m.conditions.nemeses
        if nemesis != m.nemesis
    )
    needed = {(m.conditions.name, m.nemesis) for m in MUTANTS.values()}
    controls = tuple(
        _cell(name, lock, conditions, nemesis)
        for name, (lock, conditions) in CONTROLS.items()
        for nemesis in conditions.nemeses
        if not quick or (conditions.name, nemesis) in needed
    )
    parts = [
        _part(OWN, own, seeds, f"{LIMIT_MS // 1000}s", cluster),
        _part(REFERENCE, controls, 1, "10s" if quick else "20s", cluster),
    ]
    if not quick:
        parts.insert(1, _part(ELSEWHERE, elsewhere, 1, "15s", cluster))
    if only:
        chosen = (msgspec.structs.replace(p, cells=tuple(c for c in p.cells if c.at["lock"] in only)) for p in parts)
        parts = [part for part in chosen if part.cells]
    return check(
        Grid(
            name="mutants",
            title="What finds a broken lock",
            question="Which faults find which mutant of the reference lock, how soon, and what does the verdict say?",
            parts=tuple(parts),
            first_seed=first_seed,
        )
    )


def _part(title: str, cells: tuple[Cell, ...], seeds: int, duration: str, cluster: str) -> Part:
    options = {"duration": duration, "recovery": "1s", "cluster": cluster}
    return Part(title=title, cells=cells, seeds=seeds, options=options)


def _cell(name: str, lock: str, conditions: Conditions, nemesis: str) -> Cell:
    options = {**conditions.options, "lock": lock, "nemesis": conditions.nemeses[nemesis]}
    return Cell(f"{name} · {nemesis}", options, {"lock": name, "nemesis": nemesis})
