"""The table of claims names only what exists, and no claim is without its control."""

from __future__ import annotations

import pytest

from fencepost.errors import UsageError
from harness.campaign.play import make_plan
from harness.claims.claim import Claim
from harness.claims.grid import LEAST_LOADS, chosen, claims_grid
from harness.claims.loads import LOADS
from harness.claims.table import CLAIMS, DOCUMENTS
from harness.options import parse_run
from harness.scripts.experiment import shipped_experiments

ALL = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)


@ALL
def test_a_claim_names_experiments_and_documents_that_exist(claim: Claim) -> None:
    assert {trial.script for trial in claim.trials} <= shipped_experiments().keys() | LOADS.keys()
    assert set(claim.sources) <= DOCUMENTS.keys()
    assert claim.sources
    assert claim.gist.endswith(".")


@ALL
def test_a_claim_has_a_control_and_something_that_is_controlled(claim: Claim) -> None:
    roles = [trial.role for trial in claim.trials]
    assert "control" in roles
    assert set(roles) - {"control"}
    assert len({trial.script for trial in claim.trials}) == len(claim.trials)


@ALL
def test_a_claim_about_a_tendency_has_a_load_that_tests_it(claim: Claim) -> None:
    tests = {trial.script for trial in claim.trials if trial.role != "control"}
    assert claim.says != "mostly" or tests & LOADS.keys()


@ALL
def test_a_load_that_is_compared_with_another_comes_with_it(claim: Claim) -> None:
    scripts = {trial.script for trial in claim.trials}
    assert {LOADS[name].beside for name in scripts & LOADS.keys()} - {""} <= scripts


def test_no_load_is_called_like_a_script() -> None:
    assert not LOADS.keys() & shipped_experiments().keys()


def test_loads_get_enough_runs_for_a_sign_test_and_costs_are_measured_alone() -> None:
    grid = claims_grid(chosen(["all-five-held", "fsync-cost", "baseline"]), 3, "process")
    seeds = {cell: (part.seeds, part.kind) for cell, (part, _) in grid.cells.items()}
    assert seeds["crash-with-five-keys-held"] == (3, "safety")
    assert seeds["partitions-and-delays"] == (3, "safety"), "one run decides"
    once = claims_grid(chosen(["baseline", "naive-del"]), 1, "process").cells
    assert (once["partitions-and-delays"][0].seeds, once["release-by-plain-del"][0].seeds) == (3, 1)
    assert seeds["crashes-behind-whole-links"] == (LEAST_LOADS, "safety")
    assert seeds["locks-fsynced-always"] == (LEAST_LOADS, "cost")
    assert "--disks" in grid.words("locks-fsynced-always", 1)
    assert "--seed=2" in grid.words("locks-fsynced-always", 2)


@ALL
def test_every_script_can_be_configured(claim: Claim) -> None:
    """An experiment that can never be played would leave its claim out in silence."""
    for trial in claim.trials:
        if trial.script not in LOADS:
            shipped_experiments()[trial.script].config()


def test_the_options_of_all_loads_are_such_as_a_run_takes() -> None:
    for load in LOADS.values():
        parse_run([f"--{name}={value}" if value else f"--{name}" for name, value in load.options.items()])


def test_names_are_unique() -> None:
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)


def test_an_experiment_that_several_claims_need_is_played_once() -> None:
    claims = chosen(["crash-no-persistence", "everysec-process-crash"])
    grid = claims_grid(claims, 3, "process")
    assert sorted(grid.cells) == ["crash-with-aof-everysec", "crash-without-persistence"]
    assert grid.run_count == 6
    assert grid.words("crash-without-persistence", 2) == ["--cluster=process"]


def test_the_experiments_of_all_claims_can_be_prepared_with_the_options_that_the_table_gives_them() -> None:
    fencing = [claim for claim in CLAIMS if "fencing" in claim.name]
    plan = make_plan(claims_grid(fencing, 1, "process"), yes=True)
    assert plan.configs["no-fencing"].fencing == "none"
    assert plan.configs["no-fencing"].nemesis == "no-fencing"


def test_an_unknown_claim_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"did you mean clock-step\?"):
        chosen(["clock-stop"])
