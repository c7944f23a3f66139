"""`make same-verdicts` sees what moved, and nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.same_verdicts import differences

ANSWER: dict[str, Any] = {
    "verdict": {
        "verdict": "violation",
        "unknown": ["the run was interrupted"],
        "promises": [{"promise": "exclusion", "outcome": "broken", "decides": True}],
        "findings": [
            {
                "checker": "exclusion",
                "kind": "overlap",
                "blame": "lock",
                "text": "1 pair of sections overlapped",
                "promise": "exclusion",
                "examples": [{"key": "k1", "earlier": {"start_ms": 1.5}}],
            }
        ],
        "figures": {"liveness": {"wait_ms": {"p50": 1.0}, "jain": None}, "premature_loss": {"lost_early": 0}},
    }
}


def changed(*path: str | int, to: object) -> list[str]:
    after = deepcopy(ANSWER)
    inner = after["verdict"]
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = to
    return list(differences(ANSWER, after))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "valid"),
        (("unknown",), []),
        (("findings", 0, "kind"), "late-extension"),
        (("findings", 0, "blame"), "client"),
        (("findings", 0, "promise"), "lease"),
        (("promises", 0, "outcome"), "kept"),
        (("promises", 0, "decides"), False),
        (("promises",), []),
        (("findings", 0, "count"), 2),
        (("findings", 0, "examples", 0, "earlier", "start_ms"), 1.6),
        (("findings",), []),
        (("figures", "liveness", "wait_ms", "p50"), 1.1),
        (("figures", "liveness", "jain"), 1.0),
        (("figures", "premature_loss"), {}),
        (("figures", "counter"), {"lost": 0}),
    ],
)
def test_a_verdict_that_moved_is_seen(path: tuple[str | int, ...], value: object) -> None:
    assert changed(*path, to=value)


def test_texts_missing_figures_and_new_names_of_checkers_are_no_difference() -> None:
    assert changed("findings", 0, "text", to="one pair of sections overlapped") == []
    assert changed("figures", "liveness", to={"wait_ms": {"p50": 1.0}}) == []
    before = deepcopy(ANSWER)
    before["verdict"]["figures"]["early_loss"] = before["verdict"]["figures"].pop("premature_loss")
    assert list(differences(before, ANSWER)) == []


def test_with_a_revision_that_knows_no_promises_only_its_findings_and_figures_are_compared() -> None:
    before = deepcopy(ANSWER)
    del before["verdict"]["promises"], before["verdict"]["findings"][0]["promise"]
    before["verdict"]["verdict"] = "valid"
    assert list(differences(before, ANSWER)) == []
    before["verdict"]["findings"][0]["blame"] = "client"
    assert list(differences(before, ANSWER))


def test_a_run_must_be_refused_by_both_and_as_a_mistake_of_the_user() -> None:
    refused = {"refused": 254, "says": "no run folder"}
    assert list(differences(refused, refused)) == []
    assert list(differences(refused, ANSWER)) == ["only one of the two judges it: no run folder | violation"]
    assert list(differences(refused, {"refused": 255, "says": "a bug"}))
    assert list(differences({"crashed": "KeyError()"}, {"crashed": "KeyError()"}))
