"""Every kind of finding that a checker declares."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache

import harness.checkers as folder
from fencepost.extensions import load
from harness.explain.kinds import FindingKind
from harness.verdict import Finding


@cache
def kinds() -> Mapping[str, FindingKind]:
    """By its name."""
    modules = (load(f"{folder.__name__}.{info.name}") for info in pkgutil.iter_modules(folder.__path__))
    declared = (each for module in modules for each in vars(module).values() if isinstance(each, FindingKind))
    return {kind.name: kind for kind in declared}


def kind_of(finding: Finding) -> FindingKind:
    """The finding's; one of which nothing more is known if no checker declares it."""
    return kinds().get(finding.kind) or FindingKind(finding.kind, finding.promise or "none")
