"""The runs that show what finds a mutant: every mutant under every kind of fault, and the correct locks as controls.

Under the standard faults, which must find it, a mutant gets several seeds and a minute each. It gets the same under
the ones that it is compared with: the standard faults without aim, and the plain nemeses. Single kinds of fault, and no
fault at all, show what else finds it, in less time. A correct lock is played through the same loads and faults.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from fencepost.errors import UsageError
from fencepost.meant import question
from harness.campaign.grid import Cell, Grid, Part, check
from harness.promises import LOCK
from workloads.mutants import CONDITIONS, CONTROLS, MUTANTS, NO_FAULT, PLAIN, STANDARD, UNAIMED, Conditions

LIMIT_MS: Final = 60_000
"""The time within which a mutant must be found by the standard faults."""
OWN, REFERENCE = "standard faults", "correct locks"
_Row = tuple[str, str, Conditions]
"""A name, its lock, and the settings in which that is played."""
_LISTED: Final = "docs/mutants.md and the published table, results/mutants-standard/table.md, name them all"
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
    mutants = [(mutant.name, mutant.lock, mutant.conditions) for mutant in MUTANTS.values()]
    correct = [(name, lock, conditions) for name, (lock, conditions) in CONTROLS.items()]

    def part(title: str, locks: Sequence[_Row], kinds: Collection[str], seeds: int, seconds: int) -> Part:
        cells = tuple(
            Cell(
                f"{name} · {kind}",
                {**conditions.options(kind), "lock": lock, "require": LOCK},
                {"lock": name, "nemesis": kind},
            )
            for name, lock, conditions in locks
            for kind in conditions.nemeses
            if kind in kinds and (not only or name in only) and (not faults or kind in faults)
        )
        options = {"duration": f"{seconds}s", "recovery": "1s", "cluster": cluster}
        return Part(title=title, cells=cells, seeds=seeds, options=options)

    limit_s = LIMIT_MS // 1000
    if quick:
        parts = [part(OWN, mutants, [STANDARD], seeds, limit_s), part(REFERENCE, correct, [STANDARD], 1, 20)]
    else:
        parts = [
            part(OWN, mutants, [STANDARD], seeds, limit_s),
            part("standard faults without aim", mutants, [UNAIMED], seeds, limit_s),
            part("plain nemeses", mutants, [PLAIN], seeds, limit_s),
            part("no fault", mutants, [NO_FAULT], 1, 20),
            part("one kind of fault", mutants, {*NEMESES} - {STANDARD, UNAIMED, PLAIN, NO_FAULT}, 1, 15),
            part(REFERENCE, correct, NEMESES, 1, 60),
        ]
    parts = [each for each in parts if each.cells]
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
