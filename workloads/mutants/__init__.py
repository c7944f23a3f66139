"""Locks that are broken on purpose: the reference lock, each with one line wrong.

They show what the judge can detect. Each is a subclass of the reference with one overridden method. It states which
line of the algorithm is wrong, what happens as a result, and how to detect it: under which load, with which faults, as
which finding. Select one by its class: `fencepost test --lock workloads.mutants:HalfIsEnough`.
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
