"""Every module of this folder with a function `check` is a checker; `fencepost.extensions` adds more folders.

A module offers `check(run: Recorded) -> Answer` and, if it measures anything, a class `Figures`: a frozen struct
derived from `harness.figures.CheckerFigures`. Its file name is the checker's name.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from fencepost.extensions import extended
from harness.figures import CheckerFigures

if TYPE_CHECKING:
    from harness.history.recorded import Recorded
    from harness.verdict import Answer


@dataclass(frozen=True, slots=True)
class Checker:
    """`figures`: the type of those in its answers."""

    name: str
    check: Callable[[Recorded], Answer]
    figures: type[CheckerFigures]


__path__ = extended(__path__, __name__)


def checkers() -> dict[str, Checker]:
    """Each checker by its module's name, in alphabetical order."""
    found = {}
    for info in pkgutil.iter_modules(__path__):
        module = import_module(f"{__name__}.{info.name}")
        check = getattr(module, "check", None)
        if callable(check):
            found[info.name] = Checker(info.name, check, getattr(module, "Figures", CheckerFigures))
    return found
