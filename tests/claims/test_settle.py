"""The rule: from counted runs to confirmed, refuted or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from harness.campaign.folder import RunLine
from harness.claims.settle import Settled, Tried, settle, tried_of
from harness.claims.table import Answer, Claim, Role, Trial

Says = Literal["can", "always"]


def tried(role: Role, held: int = 0, failed: int = 0, unknown: int = 0, missing: int = 0) -> Tried:
    return Tried(Trial(f"{role}-experiment", role), "what it expects", held, failed, unknown, missing, ())


def settled(says: Says, *trials: Tried, prediction: Answer | None = None) -> Settled:
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
        ("always", [tried("supports", held=3), CONTROL], "confirmed"),
        ("always", [tried("supports", held=2, failed=1), CONTROL], "refuted"),
        ("always", [tried("contradicts", held=1, failed=2), CONTROL], "refuted"),
        ("always", [tried("contradicts", failed=3), CONTROL], "confirmed"),
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
        ([tried("supports", held=3), tried("control", unknown=3)], "ended unknown"),
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


def test_an_experiment_that_this_machine_cannot_play_leaves_its_claim_undecided() -> None:
    impossible = tried_of(Trial("power-cut"), "two holders", 3, [], "power cuts need root")
    found = settled("can", impossible, CONTROL)
    assert found.answer == "undecided"
    assert found.why == "This machine cannot play power-cut: power cuts need root."
    assert impossible.missing == 0, "no run of it is to be made"
