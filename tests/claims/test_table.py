"""The table of claims names only what exists, and no claim is without its control."""

from __future__ import annotations

import pytest

from fencepost.errors import UsageError
from harness.campaign.play import make_plan
from harness.claims.grid import chosen, claims_grid
from harness.claims.table import CLAIMS, DOCUMENTS, Claim
from harness.scripts.experiment import shipped_experiments

ALL = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)


@ALL
def test_a_claim_names_experiments_and_documents_that_exist(claim: Claim) -> None:
    assert {trial.script for trial in claim.trials} <= shipped_experiments().keys()
    assert set(claim.sources) <= DOCUMENTS.keys()
    assert claim.sources
    assert claim.gist.endswith(".")


@ALL
def test_a_claim_has_a_control_and_something_that_is_controlled(claim: Claim) -> None:
    roles = [trial.role for trial in claim.trials]
    assert "control" in roles
    assert set(roles) - {"control"}
    assert len({trial.cell for trial in claim.trials}) == len(claim.trials)


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
