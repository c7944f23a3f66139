"""Each mutant differs from the reference in one line, and its declaration is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.campaign.play import make_plan
from harness.checkers.kinds import kinds
from harness.mutants.grid import mutants_grid
from workloads.blocking_locks import LooksAgainLater, SharesConnections, WakesByMessage, WakesByPush
from workloads.connection import Connection
from workloads.count_lock import CountLock
from workloads.guarded_lock import GuardedLock
from workloads.locks.redlock import Redlock
from workloads.locks.redlock_reentrant import ReentrantRedlock
from workloads.locks.redlock_renewing import RenewingRedlock
from workloads.locks.semaphore_counted import CountedSemaphore
from workloads.locks.set_nx_px_token import SetNxPxToken
from workloads.mutants import CONDITIONS, CONTROLS, MUTANTS, Mutant, TwoThreads
from workloads.queue_lock import QueueLock, TurnLock
from workloads.registry import check_lock, lock_names

OVERRIDDEN = {
    "overwrites after an error": "acquire_request",
    "looks before it sets": "acquire_request",
    "sets and expires in two steps": "try_once",
    "an error is a yes": "grants",
    "losers prolong": "acquire_request",
    "seconds for milliseconds": "acquire_request",
    "milliseconds for seconds": "acquire_request",
    "sets for less than it tells": "acquire_request",
    "asks without a time limit": "_ask",
    "never connects again": "WIRE",
    "stops at the first silence": "_ask",
    "asks again in the background": "_ask",
    "half is enough": "quorum",
    "a majority of those that reply": "quorum",
    "silence is a yes": "grants",
    "the first node decides": "_ask",
    "takes for good": "TAKE",
    "a late reply counts": "WIRE",
    "a majority lets in": "quorum",
    "counts what is over": "acquire_request",
    "keeps one permit back": "acquire_request",
    "takes a second permit": "acquire",
    "trusts its memory": "acquire",
    "any node extends": "extend_quorum",
    "extends whatever they reply": "extend_quorum",
    "extends what is over": "may_extend",
    "adds up the votes of its tries": "extend",
    "prolongs another's key": "extend_request",
    "extends by overwriting": "extend_request",
    "an extension acquires": "extend_request",
    "adds the TTL to what is left": "extend",
    "extends for seconds": "extend_request",
    "adds the TTL to what the keys have left": "extend_request",
    "extends for thousandths": "extend_request",
    "renews nothing": "renewed",
    "frees without comparing": "release_request",
    "compares, then frees": "free",
    "frees a majority": "ask_to_release",
    "frees until one is silent": "ask_to_release",
    "loads its script once": "release_request",
    "leaves refused attempts": "undo",
    "extends once more after the release": "release",
    "renews after the release": "release",
    "releases another name": "release",
    "grants what is over": "is_valid",
    "says yes and no more": "_lease",
    "counts from the answers": "deadline_ns",
    "forgets the drift": "drift_ms",
    "rounds up to seconds": "deadline_ns",
    "waits for every node": "quorum",
    "tries for ever": "acquire",
    "backs off without end": "acquire",
    "keeps the keys of its tries": "try_once",
    "one value for all": "unique_value",
    "one value per second": "unique_value",
    "one value per process": "unique_value",
    "denies what it holds": "release",
    "listens too late": "sleep",
    "listens to another channel": "sleep",
    "subscribes once": "hears",
    "sleeps on": "sleep",
    "waits over the connection of the others": "bell",
    "sleeps for seconds, not milliseconds": "blocks_s",
    "stays in the queue": "acquire",
    "keeps its own mutex": "free",
    "takes what ends soon": "acquire_request",
    "prolongs what it looks at": "undo",
    "sets it in any case": "acquire_request",
    "one is enough": "quorum",
    "acquires what it lost": "extend",
    "extends for nothing": "extend_request",
    "frees a second later": "release_request",
    "frees what refused it": "undo",
    "numbers by its clock": "try_once",
    "draws from a hundred": "unique_value",
    "pushes and deletes": "release_request",
    "queues in front": "look_request",
    "enters only once": "look_request",
    "gives up when overtaken": "acquire",
    "keeps its mutex when it fails": "try_once",
    "guards itself for good": "mutex_request",
}

ORIGINALS = (
    *(Redlock, TwoThreads, RenewingRedlock, ReentrantRedlock, QueueLock, TurnLock, CountLock, CountedSemaphore),
    *(GuardedLock, SetNxPxToken),
    *(WakesByMessage, LooksAgainLater, WakesByPush, SharesConnections),
)
CORRECT = {conditions.control for conditions in CONDITIONS.values()}

every = pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())


def members(kind: type) -> set[str]:
    """What a class itself defines."""
    made_by_python = {"__module__", "__doc__", "__firstlineno__", "__static_attributes__", "__annotations__"}
    return set(vars(kind)) - made_by_python


def test_there_are_at_least_forty_mutants_half_of_them_from_real_libraries() -> None:
    assert len(MUTANTS) >= 40
    sources = [mutant.source for mutant in MUTANTS.values() if mutant.source]
    assert 2 * len(sources) >= len(MUTANTS)
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", source) for source in sources)
    assert MUTANTS.keys() == OVERRIDDEN.keys()
    assert len({mutant.broken for mutant in MUTANTS.values()}) == len(MUTANTS)


@every
def test_a_mutant_overrides_one_member_of_its_original(mutant: Mutant) -> None:
    assert members(mutant.broken) == {OVERRIDDEN[mutant.name]}
    assert mutant.broken.__bases__ == (mutant.original,)
    assert mutant.original in ORIGINALS
    assert hasattr(mutant.original, OVERRIDDEN[mutant.name]), "a part of the original, and not a new one"


def test_the_mutant_that_mistakes_late_replies_has_a_connection_with_one_different_method() -> None:
    connection = MUTANTS["a late reply counts"].broken.WIRE
    assert connection.__bases__ == (Connection,)
    assert members(connection) == {"owe"}


@every
def test_a_mutant_is_opened_by_its_class_and_is_not_in_the_list_of_locks(mutant: Mutant) -> None:
    check_lock(mutant.lock, None)
    assert mutant.broken.__name__ not in {info.name for info in lock_names()}
    assert mutant.broken.__doc__


@every
def test_a_mutant_is_named_by_a_finding_that_a_checker_makes(mutant: Mutant) -> None:
    for finding in (mutant.finding, *mutant.also):
        assert finding in kinds()


UNNAMED = {
    *(
        "stopped-asking",
        "ended-session-vouched",
        "waits-behind-node",
        "partial-starvation",
        "deleted-while-held",
        "fault-missed",
        "fault-not-healed",
    ),
    *("unrecorded-write", "wrong-final-value", "impossible-value"),
}


def test_each_kind_of_finding_that_blames_a_lock_names_a_mutant() -> None:
    assert kinds().keys() - {mutant.finding for mutant in MUTANTS.values()} == UNNAMED
    text = Path("docs/mutants.md").read_text(encoding="utf-8")
    assert all(f"`{kind}`" in text for kind in UNNAMED)


def test_another_name_counts_only_if_it_is_explained_by_the_right_cause() -> None:
    late = MUTANTS["a late reply counts"]
    assert late.is_named_by("lease-without-majority", None)
    assert late.is_named_by("overlap", "another reply")
    assert not late.is_named_by("overlap", "deleted")
    assert not late.is_named_by("overlap", None)
    assert not late.is_named_by("unavailable-while-free", None)


@pytest.mark.parametrize("quick", [True, False])
def test_every_run_of_the_table_can_be_made(quick: bool) -> None:
    grid = mutants_grid(1, 1, "process", quick=quick)
    plan = make_plan(grid, yes=False)
    played = {cell.at["lock"] for _, cell in grid.cells.values()}
    assert played == {*MUTANTS, *CONTROLS}
    assert all(
        config.lock.startswith("workloads.mutants:") or config.lock in CORRECT for config in plan.configs.values()
    )


def test_a_correct_lock_runs_under_every_load_and_fault_that_finds_a_mutant() -> None:
    grid = mutants_grid(1, 1, "process", quick=True)
    specs = {cell.at["lock"]: set[str]() for _, cell in grid.cells.values()}
    for _, cell in grid.cells.values():
        specs[cell.at["lock"]].add(cell.options["nemesis"])
    for mutant in MUTANTS.values():
        control = next(
            name for name, (lock, load) in CONTROLS.items() if lock == load.control and load == mutant.conditions
        )
        assert specs[mutant.name] <= specs[control]
