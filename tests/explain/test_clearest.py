"""Which of a finding's explanations is told where there is room for one."""

from __future__ import annotations

from typing import cast

import pytest

from harness.explain.causes import Cause
from harness.explain.examples import Case
from harness.explain.explanation import Explained, Explanation, clearest_of
from harness.verdict import Finding

BELIEF = Finding("lease-without-majority", "lock", "in 2 sections …")


def explained(*causes: Cause | None) -> Explained:
    nothing = cast(Case, None)
    return Explained(
        BELIEF, tuple(Explanation(nothing, f"example {at}", cause=cause) for at, cause in enumerate(causes, 1))
    )


@pytest.mark.parametrize(
    ("causes", "told"),
    [
        (("unknown", "too few nodes", "deleted"), "example 2"),
        (("deleted", "too few nodes"), "example 1"),
        (("deleted", "too few nodes", "too few nodes"), "example 2"),  # the cause that the finding is said to have
        ((None, "deleted"), "example 2"),
        (("deleted", "unknown", "unknown"), "example 1"),
        (("unknown", "unknown"), "example 1"),
        (("unknown", "split votes", "stuck keys"), "example 3"),
        (("unknown", "split votes", "split votes"), "example 2"),
        (("not let in", "not let in", "dead entry"), "example 3"),
        (("not woken", "not notified"), "example 2"),
        (("unknown", None), "example 2"),  # the finding says all by itself
    ],
)
def test_the_example_that_says_most_about_the_cause_is_told(causes: tuple[Cause | None, ...], told: str) -> None:
    best = clearest_of(BELIEF, [explained(*causes)])
    assert best is not None
    assert best.sentence == told


def test_a_finding_that_was_not_explained_has_none() -> None:
    assert clearest_of(BELIEF, [explained()]) is None
    other = Finding("lease-without-majority", "lock", "in 2 sections …")
    assert clearest_of(other, [explained("deleted")]) is None
