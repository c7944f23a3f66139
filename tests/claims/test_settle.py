"""The rule: from counted runs to confirmed, refuted or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from harness.campaign.folder import RunLine
from harness.campaign.measure import Figures
from harness.claims.claim import Answer, Claim, Role, Trial
from harness.claims.grid import LEAST_LOADS
from harness.claims.loads import LOADS, TTL_MS
from harness.claims.settle import SettledClaim, Tried, settle, tried_of
from harness.claims.wording import evidence
from tests.golden import Golden

Says = Literal["can", "always", "mostly"]


def tried(role: Role, held: int = 0, failed: int = 0, unknown: int = 0, missing: int = 0) -> Tried:
    return Tried(Trial(f"{role}-experiment", role), "what it expects", held, failed, unknown, missing, ())


def drawn(held: int = 0, failed: int = 0) -> Tried:
    """Runs of a load, in which chance has a part."""
    return Tried(Trial("partitions-and-delays"), "what it expects", held, failed, 0, 0, ())


def settled(says: Says, *trials: Tried, prediction: Answer | None = None) -> SettledClaim:
    claim = Claim(
        name="c",
        sources=("reply",),
        gist="…",
        says=says,
        trials=tuple(each.trial for each in trials),
        prediction=prediction,
    )
    return settle(claim, trials)


CONTROL = tried("control", held=3)


@pytest.mark.parametrize(
    ("says", "trials", "answer"),
    [
        ("can", [tried("supports", held=3), CONTROL], "confirmed"),
        ("can", [tried("supports", held=1, failed=2), CONTROL], "confirmed"),
        ("can", [tried("supports", failed=3), CONTROL], "refuted"),
        ("always", [tried("supports", held=3), CONTROL], "not refuted"),
        ("always", [tried("supports", held=59), CONTROL], "not refuted"),
        ("always", [tried("supports", held=60), CONTROL], "confirmed"),
        ("always", [tried("supports", held=2, failed=1), CONTROL], "refuted"),
        ("always", [tried("contradicts", held=1, failed=2), CONTROL], "refuted"),
        ("always", [tried("contradicts", failed=3), CONTROL], "not refuted"),
        ("always", [tried("supports", held=3), tried("contradicts", held=3), CONTROL], "refuted"),
    ],
)
def test_one_run_shows_what_can_happen_and_refutes_what_always_holds(
    says: Says, trials: Sequence[Tried], answer: Answer
) -> None:
    assert settled(says, *trials).answer == answer


@pytest.mark.parametrize(
    ("trials", "why"),
    [
        ([tried("supports", held=3), tried("control", held=2, failed=1)], "control-experiment did not show"),
        (
            [tried("supports", held=3), tried("control", unknown=3)],
            "3 runs of the control control-experiment ended unknown and must be made again",
        ),
        ([tried("supports", held=2, missing=1), CONTROL], "1 run is still to be made"),
        ([tried("supports", held=3), tried("control", held=1, missing=2)], "2 runs are still to be made"),
        ([tried("supports", held=2, unknown=1), CONTROL], "1 run ended unknown"),
        ([tried("supports", unknown=3), CONTROL], "3 runs ended unknown"),
    ],
)
def test_missing_evidence_decides_nothing(trials: Sequence[Tried], why: str) -> None:
    found = settled("always", *trials)
    assert found.answer == "undecided"
    assert why in found.why


def test_an_unknown_run_does_not_hide_what_another_one_showed() -> None:
    assert settled("can", tried("supports", held=1, unknown=2), CONTROL).answer == "confirmed"
    assert settled("always", tried("supports", failed=1, unknown=2), CONTROL).answer == "refuted"


@pytest.mark.parametrize(("prediction", "as_predicted"), [("confirmed", True), ("refuted", False), (None, None)])
def test_an_answer_is_compared_with_the_prediction(prediction: Answer | None, as_predicted: bool | None) -> None:
    found = settled("can", tried("supports", held=3), CONTROL, prediction=prediction)
    assert found.as_predicted is as_predicted
    assert settled("always", tried("supports", held=3), CONTROL, prediction=prediction).as_predicted is as_predicted
    undecided = settled("can", tried("supports", missing=3), CONTROL, prediction=prediction)
    assert undecided.as_predicted is None


def line(seed: int, outcome: Literal["held", "failed", "unknown"] | None, error: str | None = None) -> RunLine:
    return RunLine(cell="e", seed=seed, folder=f"run-{seed}", verdict="valid", took_s=2, outcome=outcome, error=error)


def test_runs_are_counted_by_their_outcome_and_those_that_broke_off_are_missing() -> None:
    lines = [line(1, "held"), line(2, "failed"), line(3, "unknown"), line(4, None, error="no space left")]
    found = tried_of(Trial("e"), "nothing goes wrong", 5, lines)
    assert (found.held, found.failed, found.unknown, found.missing) == (1, 1, 1, 2)
    assert found.folders == ("run-1", "run-2", "run-3")
    assert not found.always_the_same
    assert found.rate.trials == 2


def test_an_experiment_that_this_machine_cannot_play_leaves_its_claim_undecided(golden: Golden) -> None:
    impossible = tried_of(Trial("power-cut"), "two holders", 3, [], "power cuts need root")
    found = settled("can", impossible, CONTROL)
    assert found.answer == "undecided"
    golden(found.why)
    assert impossible.missing == 0, "no run of it is to be made"


@pytest.mark.parametrize(
    ("held", "failed", "answer"),
    [(LEAST_LOADS, 0, "confirmed"), (0, LEAST_LOADS, "refuted"), (4, 1, "undecided"), (9, 1, "confirmed")],
)
def test_a_tendency_is_decided_by_a_sign_test(held: int, failed: int, answer: Answer) -> None:
    assert settled("mostly", drawn(held, failed), CONTROL).answer == answer


def test_runs_of_a_script_say_nothing_about_a_tendency() -> None:
    assert settled("mostly", drawn(4, 1), tried("supports", held=20), CONTROL).answer == "undecided"
    assert settled("mostly", tried("supports", held=20), CONTROL).answer == "undecided"


def test_a_tendency_that_chance_may_explain_says_how_many_runs_would_decide_it(golden: Golden) -> None:
    golden(settled("mostly", drawn(4, 1), CONTROL).why)
    golden(settled("mostly", drawn(2, 2), CONTROL).why)


def of_load(cell: str, seed: int, verdict: str = "valid", **figures: object) -> RunLine:
    shown = {"sections": 100, "overlaps": {"lock": 0}, "load_s": 2.0, "grants": 100} | figures
    whole = Figures(node_outages=0, node_outages_hit=0, reachable_s=2.0, acquire={}, **shown)  # type: ignore[arg-type]
    return RunLine(cell=cell, seed=seed, folder=f"{cell}-{seed}", verdict=verdict, took_s=2, figures=whole)


def test_a_load_is_judged_by_its_figures_and_its_rate_is_that_of_all_runs(golden: Golden) -> None:
    cell = "partitions-and-delays"
    lines = [of_load(cell, 1), of_load(cell, 2, overlaps={"lock": 1}), of_load(cell, 3, verdict="unknown")]
    found = tried_of(Trial(cell), "…", 3, lines)
    assert (found.held, found.failed, found.unknown, found.missing) == (1, 1, 1, 0)
    assert found.measured is not None
    assert found.measured.pooled is not None
    assert (found.measured.pooled.events, found.measured.pooled.trials) == (1, 200)
    golden(found.measured.in_words)
    assert found.is_random


def test_a_load_is_compared_with_the_run_of_the_same_seed(golden: Golden) -> None:
    slow, fast = "locks-fsynced-always", "locks-kept-in-memory"
    lines = [of_load(fast, 1, grants=200), of_load(slow, 1), of_load(slow, 2), of_load(fast, 3), of_load(slow, 3)]
    found = tried_of(Trial(slow), "…", 3, lines)
    assert (found.held, found.failed, found.unknown) == (1, 1, 1), "the second run has nothing beside it"
    assert found.measured is not None
    golden(found.measured.in_words)


def test_a_wait_is_the_median_of_the_run_and_a_run_without_one_shows_nothing() -> None:
    cell = "majority-back-after-the-ttl"
    lines = [of_load(cell, 1, majority_waits_ms=(TTL_MS + 300.0, 0.0, TTL_MS + 200.0)), of_load(cell, 2)]
    found = tried_of(Trial(cell), "…", 2, lines)
    assert (found.held, found.unknown) == (1, 1)


def test_one_run_of_a_control_load_that_shows_what_it_must_is_enough(golden: Golden) -> None:
    control = Tried(Trial("crashes-of-nodes-that-decide", "control"), "…", 1, 4, 0, 0, ())
    few = settled("always", tried("supports", held=3), control)
    assert few.answer == "not refuted"
    golden(evidence(few))
    blind = Tried(Trial("crashes-of-nodes-that-decide", "control"), "…", 0, 5, 0, 0, ())
    found = settled("always", tried("supports", held=3), blind)
    assert found.answer == "undecided"
    golden(found.why)


def test_a_script_that_does_not_always_end_the_same_way_cannot_be_helped_by_more_runs() -> None:
    why = settled("always", tried("supports", held=3), tried("control", held=2, failed=1)).why
    assert "No number of runs decides that" in why


def test_every_load_says_what_it_expects() -> None:
    for load in LOADS.values():
        assert load.expects.says
        assert load.expects.least <= load.expects.most
