"""The runs that show what finds a mutant: every mutant under every kind of fault, and the correct locks as controls.

Under the standard faults, which must find it, a mutant gets several seeds and a minute each. It gets the same under
the ones that it is compared with: the standard faults without aim, and the plain nemeses. Single kinds of fault, and no
fault at all, show what else finds it, in less time. A correct lock is played through the same loads and faults.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from fencepost.errors import UsageError
from fencepost.meant import question
from harness.campaign.grid import Cell, Grid, Part, check
from harness.promises import LOCK
from workloads.mutants import CONDITIONS, CONTROLS, MUTANTS, NO_FAULT, PLAIN, STANDARD, UNAIMED, Conditions

LIMIT_MS: Final = 60_000
"""The time within which a mutant must be found by the standard faults."""
OWN, REFERENCE = "standard faults", "correct locks"
_COMPARED: Final = {UNAIMED: "standard faults without aim", PLAIN: "plain nemeses", NO_FAULT: "no fault"}

_LISTED: Final = "docs/mutants.md and the published table, results/mutants.md, name them all"
NEMESES: Final = tuple(dict.fromkeys(name for conditions in CONDITIONS.values() for name in conditions.nemeses))
"""The columns of the table."""


def mutants_grid(
    seeds: int,
    first_seed: int,
    cluster: str,
    *,
    quick: bool,
    only: Collection[str] = (),
    faults: Collection[str] = (),
) -> Grid:
    """`seeds`: under the standard faults and under the ones that they are compared with. The quick form leaves out all
    others. `only`: the mutants and correct locks to run, all if empty; `faults`: the kinds of fault, likewise. Raises
    UsageError for seeds that are none, and for an unknown name."""
    for name in only:
        if name not in MUTANTS and name not in CONTROLS:
            raise UsageError(f"--only {name!r} is not a mutant{question(name, (*MUTANTS, *CONTROLS), _LISTED)}")
    for name in faults:
        if name not in NEMESES:
            raise UsageError(f"--faults {name!r} is no column of the table; they are {', '.join(NEMESES)}")
    kinds = {mutant.name: mutant.conditions.nemeses for mutant in MUTANTS.values()}
    rows = [(mutant.name, mutant.lock, mutant.conditions) for mutant in MUTANTS.values()]
    locks = [(name, lock, conditions) for name, (lock, conditions) in CONTROLS.items()]
    limit = f"{LIMIT_MS // 1000}s"
    own = tuple(_cell(*row, STANDARD) for row in rows)
    if quick:
        controls = tuple(_cell(*row, STANDARD) for row in locks)
        parts = [_part(OWN, own, seeds, limit, cluster), _part(REFERENCE, controls, 1, "20s", cluster)]
    else:
        compared = {kind: tuple(_cell(*row, kind) for row in rows) for kind in _COMPARED}
        elsewhere = tuple(
            _cell(*row, kind) for row in rows for kind in kinds[row[0]] if kind != STANDARD and kind not in _COMPARED
        )
        controls = tuple(_cell(*row, kind) for row in locks for kind in row[2].nemeses)
        parts = [
            _part(OWN, own, seeds, limit, cluster),
            _part(_COMPARED[UNAIMED], compared[UNAIMED], seeds, limit, cluster),
            _part(_COMPARED[PLAIN], compared[PLAIN], seeds, limit, cluster),
            _part(_COMPARED[NO_FAULT], compared[NO_FAULT], 1, "20s", cluster),
            _part("one kind of fault", elsewhere, 1, "15s", cluster),
            _part(REFERENCE, controls, 1, "60s", cluster),
        ]
    parts = [chosen for part in parts if (chosen := _chosen(part, only, faults)).cells]
    if not parts:
        raise UsageError("--only and --faults leave no run; --quick plays the standard faults only")
    return check(
        Grid(
            name="mutants",
            title="What finds a broken lock",
            question="Which faults find which mutant of the reference lock, how soon, and what does the verdict say?",
            parts=tuple(parts),
            first_seed=first_seed,
        )
    )


def _chosen(part: Part, only: Collection[str], faults: Collection[str]) -> Part:
    """What is left of a part."""
    cells = (cell for cell in part.cells if not only or cell.at["lock"] in only)
    return msgspec.structs.replace(
        part, cells=tuple(cell for cell in cells if not faults or cell.at["nemesis"] in faults)
    )


def _part(title: str, cells: tuple[Cell, ...], seeds: int, duration: str, cluster: str) -> Part:
    options = {"duration": duration, "recovery": "1s", "cluster": cluster}
    return Part(title=title, cells=cells, seeds=seeds, options=options)


def _cell(name: str, lock: str, conditions: Conditions, nemesis: str) -> Cell:
    options = {**conditions.options(nemesis), "lock": lock, "require": LOCK}
    return Cell(f"{name} · {nemesis}", options, {"lock": name, "nemesis": nemesis})
