"""Every module of this folder with a function `check` is a checker; `fencepost.extensions` adds more folders."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from fencepost.extensions import extended

if TYPE_CHECKING:
    from harness.history.recorded import Recorded
    from harness.verdict import Answer

    Check = Callable[[Recorded], Answer]

__path__ = extended(__path__, __name__)


def checkers() -> dict[str, Check]:
    """Each checker by its module's name, in alphabetical order."""
    found = {}
    for info in pkgutil.iter_modules(__path__):
        check = getattr(import_module(f"{__name__}.{info.name}"), "check", None)
        if callable(check):
            found[info.name] = check
    return found
