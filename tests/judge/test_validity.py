"""A lock may not tell a validity that reaches beyond the TTL of its keys."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.validity import check
from tests.judge.histories import History, ms


def overstated(validity_ms: float, **more: Any) -> object:
    lease = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 50, validity_ms=validity_ms, **more)
    return check(lease.recorded()).figures["overstated"]


def test_the_time_since_the_request_has_to_be_taken_off() -> None:
    spent = {"requested_ns": ms(10), "computed_after_ns": ms(40), "computed_before_ns": ms(41)}
    assert overstated(69.0, **spent) == 0
    assert overstated(72.0, **spent) == 1


def test_only_time_that_certainly_passed_is_held_against_it() -> None:
    assert overstated(99.0, requested_ns=ms(10)) == 0


def test_a_reported_deadline_is_held_against_the_ttl_from_the_request() -> None:
    assert overstated(60.0, requested_ns=ms(10), deadline_ns=ms(110)) == 0
    assert overstated(60.0, requested_ns=ms(10), deadline_ns=ms(112)) == 1


@pytest.mark.parametrize(("validity_ms", "found"), [(100.0, 0), (100.9, 0), (101.0, 1)])
def test_without_a_request_time_it_is_held_against_the_bare_ttl_but_for_rounding(
    validity_ms: float, found: int
) -> None:
    assert overstated(validity_ms) == found


def test_an_extension_is_held_to_the_same() -> None:
    history = History().section("c1", 0, 50, deadline=99).op("c1", "extend", "ok", 1, 20, 21, validity_ms=150.0)
    finding = check(history.recorded()).findings[0]
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "overstated-validity",
        "lock",
        ("lease",),
        1,
    )


def test_the_worst_is_told_and_shown_with_the_first_ones() -> None:
    history = History(ttl_ms=100)
    for number, validity_ms in enumerate((110.0, 120.0, 130.0, 500.0, 140.0), 1):
        history.op("c1", "acquire", "ok", number, 200 * number, 200 * number + 1, validity_ms=validity_ms)
    finding = check(history.recorded()).findings[0]
    assert "by up to 400.0 ms" in finding.text
    assert [example["too_long_by_ms"] for example in finding.examples] == [10, 20, 30, 400]
