"""Locks that are broken on purpose: the reference lock, each with one line wrong.

They show what the judge can detect. Each is a subclass of the reference with one overridden member. It states which
line of the algorithm is wrong, what happens as a result, and as which finding it must be detected. Half of them are
mistakes of real libraries; their declaration names the issue. Select one by its class:
`fencepost test --lock workloads.mutants:HalfIsEnough`.
"""

from __future__ import annotations

from workloads.mutants.acquiring import (
    AnErrorIsAYes,
    ExpiresInSeconds,
    LooksBeforeItSets,
    LosersProlong,
    OverwritesAfterAnError,
    SecondsForMilliseconds,
    SetsAndExpiresInTwoSteps,
    SetsForLess,
)
from workloads.mutants.connecting import (
    AsksAgainInTheBackground,
    AsksWithoutATimeLimit,
    NeverConnectsAgain,
    StopsAtTheFirstSilence,
)
from workloads.mutants.counting import (
    HalfIsEnough,
    LateReplyCounts,
    MajorityOfThoseThatReply,
    SilenceIsYes,
    TakesForGood,
    TheFirstNodeDecides,
)
from workloads.mutants.declared import (
    CONDITIONS,
    CONTROLS,
    MUTANTS,
    NO_FAULT,
    PLAIN,
    STANDARD,
    UNAIMED,
    Conditions,
    Mutant,
)
from workloads.mutants.extending import (
    AddsTheTtl,
    AddsToWhatTheKeysHaveLeft,
    AddsUpTheVotes,
    AnExtensionAcquires,
    ExtendedByAnyNode,
    ExtendsByOverwriting,
    ExtendsForSeconds,
    ExtendsForThousandths,
    ExtendsWhateverTheyReply,
    ExtendsWhatIsOver,
    ProlongsAnothersKey,
)
from workloads.mutants.freeing import (
    ComparesThenFrees,
    DeniesWhatItHolds,
    ExtendsOnceMoreAfterTheRelease,
    FreesAMajority,
    FreesUntilOneIsSilent,
    FreesWithoutComparing,
    LeavesRefusedAttempts,
    LoadsItsScriptOnce,
    ReleasesAnotherName,
    RenewsAfterTheRelease,
)
from workloads.mutants.timing import (
    CountsFromTheAnswers,
    ForgetsTheDrift,
    GrantsWhatIsOver,
    RoundsUpToSeconds,
    SaysYesAndNoMore,
)
from workloads.mutants.trying import BacksOffWithoutEnd, KeepsTheKeysOfItsTries, TriesForEver, WaitsForEveryNode
from workloads.mutants.values import (
    OneValueForAll,
    OneValuePerProcess,
    OneValuePerSecond,
    TwoThreads,
)
from workloads.mutants.waiting import (
    KeepsItsOwnMutex,
    ListensToAnotherChannel,
    ListensTooLate,
    SleepsForSeconds,
    StaysInTheQueue,
    SubscribesOnce,
)

__all__ = [
    "CONDITIONS",
    "CONTROLS",
    "MUTANTS",
    "NO_FAULT",
    "PLAIN",
    "STANDARD",
    "UNAIMED",
    "AddsTheTtl",
    "AddsToWhatTheKeysHaveLeft",
    "AddsUpTheVotes",
    "AnErrorIsAYes",
    "AnExtensionAcquires",
    "AsksAgainInTheBackground",
    "AsksWithoutATimeLimit",
    "BacksOffWithoutEnd",
    "ComparesThenFrees",
    "Conditions",
    "CountsFromTheAnswers",
    "DeniesWhatItHolds",
    "ExpiresInSeconds",
    "ExtendedByAnyNode",
    "ExtendsByOverwriting",
    "ExtendsForSeconds",
    "ExtendsForThousandths",
    "ExtendsOnceMoreAfterTheRelease",
    "ExtendsWhatIsOver",
    "ExtendsWhateverTheyReply",
    "ForgetsTheDrift",
    "FreesAMajority",
    "FreesUntilOneIsSilent",
    "FreesWithoutComparing",
    "GrantsWhatIsOver",
    "HalfIsEnough",
    "KeepsItsOwnMutex",
    "KeepsTheKeysOfItsTries",
    "LateReplyCounts",
    "LeavesRefusedAttempts",
    "ListensToAnotherChannel",
    "ListensTooLate",
    "LoadsItsScriptOnce",
    "LooksBeforeItSets",
    "LosersProlong",
    "MajorityOfThoseThatReply",
    "Mutant",
    "NeverConnectsAgain",
    "OneValueForAll",
    "OneValuePerProcess",
    "OneValuePerSecond",
    "OverwritesAfterAnError",
    "ProlongsAnothersKey",
    "ReleasesAnotherName",
    "RenewsAfterTheRelease",
    "RoundsUpToSeconds",
    "SaysYesAndNoMore",
    "SecondsForMilliseconds",
    "SetsAndExpiresInTwoSteps",
    "SetsForLess",
    "SilenceIsYes",
    "SleepsForSeconds",
    "StaysInTheQueue",
    "StopsAtTheFirstSilence",
    "SubscribesOnce",
    "TakesForGood",
    "TheFirstNodeDecides",
    "TriesForEver",
    "TwoThreads",
    "WaitsForEveryNode",
]
