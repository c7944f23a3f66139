"""Each mutant differs from the reference in one line, and its declaration is complete."""

from __future__ import annotations

import pytest

from harness.campaign.play import make_plan
from harness.checkers import checkers
from harness.mutants.grid import mutants_grid
from workloads.connection import Connection
from workloads.locks.redlock import Redlock
from workloads.mutants import CONTROLS, MUTANTS, Mutant, TwoThreads
from workloads.registry import check_lock, lock_names

OVERRIDDEN = {
    "half is enough": "quorum",
    "silence is a yes": "grants",
    "a late reply counts": "WIRE",
    "any node extends": "extend_quorum",
    "grants what is over": "is_valid",
    "counts from the answers": "deadline_ns",
    "forgets the drift": "drift_ms",
    "extends what is over": "may_extend",
    "overwrites after an error": "acquire_request",
    "seconds for milliseconds": "acquire_request",
    "milliseconds for seconds": "acquire_request",
    "frees without comparing": "release_request",
    "frees a majority": "ask_to_release",
    "one value for all": "unique_value",
    "one value per process": "unique_value",
}

every = pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())


def members(kind: type) -> set[str]:
    """What a class itself defines."""
    made_by_python = {"__module__", "__doc__", "__firstlineno__", "__static_attributes__", "__annotations__"}
    return set(vars(kind)) - made_by_python


def test_there_are_at_least_twelve_mutants_each_with_a_different_line() -> None:
    assert len(MUTANTS) >= 12
    assert MUTANTS.keys() == OVERRIDDEN.keys()
    assert len({mutant.broken for mutant in MUTANTS.values()}) == len(MUTANTS)


@every
def test_a_mutant_overrides_one_member_of_its_original(mutant: Mutant) -> None:
    assert members(mutant.broken) == {OVERRIDDEN[mutant.name]}
    assert mutant.broken.__bases__ == (mutant.original,)
    assert mutant.original in (Redlock, TwoThreads)
    assert hasattr(Redlock, OVERRIDDEN[mutant.name]), "a part of the reference, and not a new one"


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
def test_a_mutant_declares_the_faults_and_the_finding_that_expose_it(mutant: Mutant) -> None:
    assert mutant.nemesis in mutant.conditions.nemeses
    sources = {checker.check.__module__ for checker in checkers().values()}
    assert any(f'"{mutant.finding}"' in _source(module) for module in sources)
    assert mutant.liveness == (mutant.finding == "refused-alone")


def _source(module: str) -> str:
    import importlib
    import inspect

    return inspect.getsource(importlib.import_module(module))


@pytest.mark.parametrize("quick", [True, False])
def test_every_run_of_the_table_can_be_made(quick: bool) -> None:
    grid = mutants_grid(1, 1, "process", quick=quick)
    plan = make_plan(grid, yes=False)
    played = {cell.at["lock"] for _, cell in grid.cells.values()}
    assert played == {*MUTANTS, *CONTROLS}
    assert all(
        config.lock.startswith("workloads.mutants:") or config.lock == "redlock" for config in plan.configs.values()
    )


def test_a_correct_lock_runs_under_every_load_and_fault_that_finds_a_mutant() -> None:
    grid = mutants_grid(1, 1, "process", quick=True)
    specs = {cell.at["lock"]: set[str]() for _, cell in grid.cells.values()}
    for _, cell in grid.cells.values():
        specs[cell.at["lock"]].add(cell.options["nemesis"])
    for mutant in MUTANTS.values():
        control = next(
            name for name, (lock, load) in CONTROLS.items() if lock == "redlock" and load == mutant.conditions
        )
        assert specs[mutant.name] <= specs[control]
