"""A lock may not tell a validity that reaches beyond the TTL of its keys."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.lease_validity import check
from tests.golden import Golden
from tests.judge.histories import History, ms


def overstated(validity_ms: float, **more: Any) -> object:
    lease = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 50, validity_ms=validity_ms, **more)
    return check(lease.recorded()).figures.overstated


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
        "lease",
        1,
    )


def test_the_worst_is_told_and_shown_with_the_first_ones() -> None:
    history = History(ttl_ms=100)
    for number, validity_ms in enumerate((110.0, 120.0, 130.0, 500.0, 140.0), 1):
        history.op("c1", "acquire", "ok", number, 200 * number, 200 * number + 1, validity_ms=validity_ms)
    finding = check(history.recorded()).findings[0]
    assert "by up to 400 ms" in finding.text
    assert [example["too_long_by_ms"] for example in finding.examples] == [10, 20, 30, 400]


def kinds(history: History) -> list[str]:
    return [finding.kind for finding in check(history.recorded()).findings]


def lease(f: str, requested: float, told_at: float, deadline: float, section: int = 1) -> dict[str, Any]:
    """A lease whose lock shows everything: asked for, computed and over then."""
    return {"requested_ns": ms(requested), "deadline_ns": ms(deadline), "validity_ms": deadline - told_at}


@pytest.mark.parametrize(("deadline", "found"), [(40.000001, []), (40, ["no-validity"]), (20, ["no-validity"])])
def test_a_lease_must_have_some_validity_left_when_it_is_granted(deadline: float, found: list[str]) -> None:
    history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 41, **lease("acquire", 1, 40, deadline))
    assert kinds(history) == found


def test_a_client_that_learnt_of_its_lease_too_late_does_not_accuse_the_lock() -> None:
    assert kinds(History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 500, **lease("acquire", 1, 40, 90))) == []


@pytest.mark.parametrize(
    ("deadline", "found"),
    [(100.95, []), (100.950001, ["no-drift-allowance"]), (101, ["no-drift-allowance"]), (102, ["overstated-validity"])],
)
def test_a_validity_must_leave_something_for_clocks_that_drift(deadline: float, found: list[str]) -> None:
    history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 41, **lease("acquire", 1, 40, deadline))
    assert kinds(history) == found


def test_of_these_only_the_missing_allowance_breaks_nothing() -> None:
    breaks = {}
    for deadline in (40, 101, 102):
        history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 41, **lease("acquire", 1, 40, deadline))
        breaks |= {finding.kind: finding.breaks for finding in check(history.recorded()).findings}
    assert breaks == {"no-validity": "lease", "no-drift-allowance": None, "overstated-validity": "lease"}


@pytest.mark.parametrize(
    ("validity_ms", "found"),
    [(99.95, []), (99.950001, ["no-drift-allowance"]), (100.9, ["no-drift-allowance"]), (101, ["overstated-validity"])],
)
def test_of_who_does_not_show_the_request_a_validity_as_long_as_the_ttl_leaves_nothing(
    validity_ms: float, found: list[str]
) -> None:
    history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 1, validity_ms=validity_ms)
    findings = check(history.recorded()).findings
    assert [finding.kind for finding in findings] == found
    if found == ["no-drift-allowance"]:
        assert findings[0].breaks is None
        assert findings[0].examples[0]["validity_of_ms"] == pytest.approx(validity_ms)
        assert check(history.recorded()).figures.without_allowance == 1


@pytest.mark.parametrize(("computed", "found"), [(90, []), (90.000001, ["late-extension"]), (150, ["late-extension"])])
def test_an_extension_must_be_granted_before_the_lease_is_over(computed: float, found: list[str]) -> None:
    history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 2, **lease("acquire", 0, 1, 90))
    history.op("c1", "extend", "ok", 1, 80, 200, **lease("extend", 80, computed, 170))
    assert kinds(history) == found


def test_what_an_extension_prolongs_is_the_lease_right_before_it() -> None:
    history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 2, **lease("acquire", 0, 1, 90))
    history.op("c1", "extend", "ok", 1, 80, 82, **lease("extend", 80, 81, 170))
    history.op("c1", "extend", "ok", 1, 120, 122, **lease("extend", 120, 121, 210))
    history.op("c1", "acquire", "ok", 2, 300, 302, **lease("acquire", 300, 301, 390))
    assert kinds(history) == []


def test_an_extension_that_may_have_come_in_time_is_not_held_against_the_lock() -> None:
    history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 40, validity_ms=90.0)  # over between 90 and 130
    assert kinds(history.op("c1", "extend", "ok", 1, 100, 101, validity_ms=90.0)) == []
    later = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 40, validity_ms=90.0)
    assert kinds(later.op("c1", "extend", "ok", 1, 131, 132, validity_ms=90.0)) == ["late-extension"]


def test_a_part_of_a_nanosecond_is_not_held_against_an_extension() -> None:
    history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 2, **lease("acquire", 0, 1, 90))
    history.op("c1", "extend", "ok", 1, 80, 91, validity_ms=50.0000005, deadline_ns=ms(140) + 1)
    assert kinds(history) == []


@pytest.mark.parametrize(("asked", "found"), [(90, []), (90.1, ["late-extension"])])
def test_an_extension_that_tells_only_its_deadline_is_late_if_it_was_asked_for_after_the_end(
    asked: float, found: list[str]
) -> None:
    history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 2, **lease("acquire", 0, 1, 90))
    assert kinds(history.op("c1", "extend", "ok", 1, asked, 202, deadline_ns=ms(280))) == found


def test_an_extension_that_tells_no_time_is_not_called_late() -> None:
    history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 2, **lease("acquire", 0, 1, 90))
    assert kinds(history.op("c1", "extend", "ok", 1, 200, 202)) == []


def test_an_extension_prolongs_another_one_also_if_nobody_knows_what_came_of_the_acquire() -> None:
    history = History(ttl_ms=100).op("c1", "acquire", "info", 1, 0, 2)
    history.op("c1", "extend", "ok", 1, 50, 52, **lease("extend", 50, 51, 140))
    history.op("c1", "extend", "ok", 1, 150, 152, **lease("extend", 150, 151, 240))
    assert kinds(history) == ["late-extension"]


# Services that grant another time than was asked for, and locks that tell no validity.


def test_a_time_that_was_rounded_up_is_no_overstatement() -> None:
    assert overstated(995.0, granted_ms=1_000.0) == 0
    assert overstated(1_001.0, granted_ms=1_000.0) == 1
    assert overstated(60.0, granted_ms=50.0) == 1, "rounded down"


def test_a_deadline_is_held_against_the_granted_time_from_the_request() -> None:
    assert overstated(990.0, granted_ms=1_000.0, requested_ns=ms(10), deadline_ns=ms(1_010)) == 0
    assert overstated(990.0, granted_ms=1_000.0, requested_ns=ms(10), deadline_ns=ms(1_012)) == 1


def test_a_lock_that_tells_no_validity_tells_none_that_is_too_long_or_leaves_no_allowance() -> None:
    told = {"granted_ms": 100.0, "requested_ns": ms(10), "computed_after_ns": ms(45), "computed_before_ns": ms(50)}
    assert kinds(History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 50, **told)) == []


@pytest.mark.parametrize(("asked", "found"), [(149, []), (151, ["late-extension"])])
def test_an_extension_without_a_validity_is_late_if_it_was_asked_for_after_the_end(
    asked: float, found: list[str]
) -> None:
    history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 50, granted_ms=100.0)
    assert kinds(history.op("c1", "extend", "ok", 1, asked, 160, granted_ms=100.0)) == found


# A late extension is judged by the nodes.


def extended_late(*gone: float | None) -> History:
    """c1 was let in at 10 until 100, and extended from 120 to 130; each node held its key from 8 on, until `gone`."""
    history = History(ttl_ms=100).watch("n1", "n2", "n3").section("c1", 10, 200, deadline=100).sets("c1", "v1")
    history.op("c1", "extend", "ok", 1, 120, 130, validity_ms=90.0, deadline_ns=ms(215))
    for node, at in zip(("n1", "n2", "n3"), gone, strict=True):
        history.seen(node, "set", 8, "v1", since=6, ttl=100)
        if at is not None:
            history.seen(node, "expired", at, since=at)
    for node in ("n1", "n2", "n3"):
        history.seen(node, "blind", 900)
    return history


def late(history: History) -> list[str | None]:
    findings = [finding for finding in check(history.recorded()).findings if "exten" in finding.kind]
    assert all((finding.blame, finding.count) == ("lock", 1) for finding in findings)
    return [finding.breaks for finding in findings]


def test_a_late_extension_of_a_key_that_a_majority_still_held_did_no_harm(golden: Golden) -> None:
    assert late(extended_late(None, None, None)) == [None]
    assert late(extended_late(110, None, None)) == [None]
    assert late(extended_late(110, 130, None)) == [None]
    text = check(extended_late(None, None, None).recorded()).findings[0].text
    golden(text)


def test_a_late_extension_of_a_key_that_was_gone_breaks_the_lease(golden: Golden) -> None:
    assert late(extended_late(110, 129.9, None)) == ["lease"]
    assert late(extended_late(110, 111, 112)) == ["lease"]
    text = check(extended_late(110, 111, 112).recorded()).findings[0].text
    golden(text)


def test_nobody_knows_what_the_nodes_held_of_a_lock_that_shows_nothing() -> None:
    history = extended_late(110, 111, 112)
    history.told_values.clear()
    assert late(history) == [None]
    history = extended_late(110, 111, 112)
    history.told_values.clear()
    assert late(history.sets("c1", "what no node ever had")) == [None]
    history = extended_late(110, 111, 112)
    history.key_events.clear()
    assert late(history) == [None]


def test_keys_that_their_nodes_forgot_are_not_the_locks_fault() -> None:
    history = extended_late(None, None, None)
    history.key_events = [event for event in history.key_events if event.event != "blind"]
    for node in ("n1", "n2"):
        history.seen(node, "blind", 50).seen(node, "watching", 60, "second").seen(node, "blind", 900)
    assert late(history.seen("n3", "blind", 900)) == [None]


def test_only_the_extension_that_was_late_is_held_against_the_lock() -> None:
    """The keys were gone only after it."""
    history = extended_late(140, 141, 142)
    assert late(history) == [None]


@pytest.mark.parametrize(
    ("granted", "ttl"),
    [((None, None), "TTL of 100 ms"), ((100.0, None), "TTL of 100 ms"), ((50.0, None), "lease time as granted")],
)
def test_the_words_name_what_a_validity_is_held_against(granted: tuple[float | None, ...], ttl: str) -> None:
    history = History(ttl_ms=100)
    for number, granted_ms in enumerate(granted, 1):
        at = 1000 * number
        history.op("c1", "acquire", "ok", number, at, at + 1, validity_ms=400.0, granted_ms=granted_ms)
    assert f"ends after the {ttl}, by" in check(history.recorded()).findings[0].text


def test_an_example_shows_the_validity_if_one_was_told() -> None:
    told = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 1, validity_ms=400.0)
    assert check(told.recorded()).findings[0].examples[0]["validity_ms"] == 400.0
    history = History(ttl_ms=100).op("c1", "acquire", "ok", 1, 0, 50, granted_ms=100.0)
    history.op("c1", "extend", "ok", 1, 151, 160, granted_ms=100.0)
    assert check(history.recorded()).findings[0].examples[0]["validity_ms"] is None
