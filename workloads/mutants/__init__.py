"""Locks that are broken on purpose: the reference with one line wrong in each.

They show what the judge can see. Each is a subclass of the reference that differs from it in one overridden method, and
says which line of the algorithm that is, what becomes of it, and how it can be seen: under which load, by which faults,
as which finding. Use one by its class: `fencepost test --lock workloads.mutants:HalfIsEnough`.
"""

from __future__ import annotations

from workloads.mutants.counting import ExtendedByAnyNode, HalfIsEnough, LateReplyCounts, SilenceIsYes
from workloads.mutants.declared import CONDITIONS, CONTROLS, MUTANTS, Conditions, Mutant
from workloads.mutants.freeing import FreesAMajority, FreesWithoutComparing
from workloads.mutants.requests import (
    ExpiresInSeconds,
    OverwritesAfterAnError,
    SecondsForMilliseconds,
)
from workloads.mutants.timing import (
    CountsFromTheAnswers,
    ExtendsWhatIsOver,
    ForgetsTheDrift,
    GrantsWhatIsOver,
)
from workloads.mutants.values import OneValueForAll, OneValuePerProcess, TwoThreads

__all__ = [
    "CONDITIONS",
    "CONTROLS",
    "MUTANTS",
    "Conditions",
    "CountsFromTheAnswers",
    "ExpiresInSeconds",
    "ExtendedByAnyNode",
    "ExtendsWhatIsOver",
    "ForgetsTheDrift",
    "FreesAMajority",
    "FreesWithoutComparing",
    "GrantsWhatIsOver",
    "HalfIsEnough",
    "LateReplyCounts",
    "Mutant",
    "OneValueForAll",
    "OneValuePerProcess",
    "OverwritesAfterAnError",
    "SecondsForMilliseconds",
    "SilenceIsYes",
    "TwoThreads",
]
