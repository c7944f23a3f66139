"""Every module of this folder with a function `check` is a checker; `fencepost.extensions` adds more folders.

A module offers `check(run: Recorded) -> Answer` and, if it measures anything, a class `Figures`: a frozen struct
derived from `harness.figures.CheckerFigures`. Its file name is the checker's name. The kinds of its findings are
constants of the module (`harness.explain.kinds.FindingKind`). A checker of a kind of record that only some workloads
have sets `ONLY_IF_NAMED = True`; every other one judges all runs, unless the workload excludes it.

This package itself imports no checker and no tables, so that a run can be prepared without them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.errors import UsageError
from fencepost.extensions import extended, load
from harness.figures import CheckerFigures
from harness.limits import FIGURES
from workloads.kinds import find_workload

if TYPE_CHECKING:
    from harness.config import RunConfig
    from harness.history.recorded import Recorded
    from harness.verdict import Answer


@dataclass(frozen=True, slots=True)
class Checker:
    """`figures`: the type of those in its answers. `only_if_named`: it judges only workloads that name it."""

    name: str
    check: Callable[[Recorded], Answer]
    figures: type[CheckerFigures]
    only_if_named: bool


__path__ = extended(__path__, __name__)


def checkers() -> dict[str, Checker]:
    """Each checker by its module's name, in alphabetical order."""
    found = {}
    for info in pkgutil.iter_modules(__path__):
        module = load(f"{__name__}.{info.name}")
        check = getattr(module, "check", None)
        if callable(check):
            figures = getattr(module, "Figures", CheckerFigures)
            found[info.name] = Checker(info.name, check, figures, getattr(module, "ONLY_IF_NAMED", False))
    return found


def checkers_of(workload: str) -> dict[str, Checker]:
    """The checkers that judge this workload. Raises UsageError if there is no such workload."""
    chosen = find_workload(workload)
    return {
        name: checker
        for name, checker in checkers().items()
        if (name in chosen.checkers if checker.only_if_named else name not in chosen.excluded_checkers)
    }


def check_measured(config: RunConfig) -> None:
    """Raise UsageError for a limit on what no checker of the run's workload measures."""
    judging = checkers_of(config.workload).keys() if config.limits else set[str]()
    for limit in config.limits:
        if not judging & set(FIGURES[limit.figure].checkers):
            raise UsageError(f"--limit '{limit}': --workload {config.workload} has no such figure")


def check_checkers(workload: str) -> None:
    """Raise UsageError if the workload names a checker that does not exist. Imports no checker."""
    chosen, known = find_workload(workload), {info.name for info in pkgutil.iter_modules(__path__)}
    for name in (*chosen.checkers, *chosen.excluded_checkers):
        if name not in known:
            raise UsageError(f"the workload {workload} names the checker {name!r}, which does not exist")
