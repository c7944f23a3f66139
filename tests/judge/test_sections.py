"""Sections: which there were, from when to when, and the bounds of their leases."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.errors import UsageError
from harness.history.fault_windows import FOREVER_NS
from tests.judge.histories import History, ms


def only(history: History) -> dict:
    (section,) = history.sections()
    return section


def test_a_section_lasts_from_the_grant_to_the_invocation_of_the_release() -> None:
    section = only(History().section("c1", 10, 30, asked=8))
    assert (section["asked"], section["start"], section["end"], section["ended"]) == (8, 10, 30, "release")


def test_a_refused_or_indefinite_acquire_starts_no_section() -> None:
    assert History().op("c1", "acquire", "fail", 1, 1, 2).op("c1", "acquire", "info", 1, 3, 4).sections() == []


def test_waiting_starts_with_the_first_attempt_for_the_section() -> None:
    history = History().op("c1", "acquire", "fail", 1, 1, 2).op("c1", "acquire", "info", 1, 3, 4)
    assert only(history.section("c1", 10, 30))["asked"] == 1


@pytest.mark.parametrize("outcome", ["ok", "fail", "info"])
def test_the_release_ends_the_section_whatever_its_outcome(outcome: str) -> None:
    section = only(History().section("c1", 10, None).op("c1", "release", outcome, 1, 30, 80))
    assert (section["end"], section["ended"]) == (30, "release")


def test_a_client_killed_inside_was_inside_until_it_was_killed() -> None:
    section = only(History().section("c1", 10, None).end("c1", "killed", 55))
    assert (section["end"], section["ended"]) == (55, "killed")


def test_a_client_cut_off_inside_leaves_its_section_open_until_then() -> None:
    section = only(History().section("c1", 10, None).end("c1", "cut-off", 55))
    assert (section["end"], section["ended"]) == (55, "open")


def test_without_a_recorded_end_a_section_ends_with_the_last_recorded_operation() -> None:
    section = only(History().section("c1", 10, None).op("c1", "read", "ok", 1, 12, 14, value=0))
    assert (section["end"], section["ended"]) == (14, "open")


def test_the_end_of_one_life_says_nothing_about_another() -> None:
    history = History().section("c1", 10, None, life=1).section("c1", 60, None, life=2, number=2)
    first, second = history.end("c1", "killed", 55, life=1).end("c1", "cut-off", 90, life=2).sections()
    assert (first["end"], first["ended"], second["end"], second["ended"]) == (55, "killed", 90, "open")


def test_a_section_without_a_release_ends_when_the_client_starts_the_next_one() -> None:
    history = History().section("c1", 10, None, number=1).end("c1", "killed", 90)
    for number, at in ((2, 40), (3, 60)):
        section = only(history.op("c1", "acquire", "fail", number, at, at + 1))
        assert (section["end"], section["ended"]) == (40, "open")


def test_a_reported_deadline_is_taken_exactly() -> None:
    section = only(History().section("c1", 10, 30, deadline=104.5))
    assert (section["deadline_min"], section["deadline_max"]) == (104.5, 104.5)


def test_a_validity_counts_from_between_the_lock_s_own_timestamps() -> None:
    stamps = {"computed_after_ns": ms(5), "computed_before_ns": ms(8)}
    history = History().op("c1", "acquire", "ok", 1, 0, 20, validity_ms=90.0, **stamps)
    section = only(history)
    assert (section["deadline_min"], section["deadline_max"]) == (95, 98)


def test_without_timestamps_a_validity_counts_from_within_the_call() -> None:
    section = only(History().op("c1", "acquire", "ok", 1, 0, 20, validity_ms=90.0))
    assert (section["deadline_min"], section["deadline_max"]) == (90, 110)


def test_timestamps_outside_the_call_are_ignored() -> None:
    stamps = {"computed_after_ns": ms(-5), "computed_before_ns": ms(70)}
    history = History().op("c1", "acquire", "ok", 1, 0, 20, validity_ms=90.0, **stamps)
    section = only(history)
    assert (section["deadline_min"], section["deadline_max"]) == (90, 110)


def test_a_validity_is_computed_after_the_request_that_granted_it() -> None:
    section = only(History().op("c1", "acquire", "ok", 1, 0, 20, validity_ms=90.0, requested_ns=ms(15)))
    assert (section["deadline_min"], section["deadline_max"]) == (105, 110)


def test_a_lock_that_reports_no_validity_leaves_both_deadlines_open() -> None:
    section = History().op("c1", "acquire", "ok", 1, 0, 20).recorded().sections.iloc[0]
    assert section.deadline_min_ns == ms(0) - 1
    assert section.deadline_max_ns == FOREVER_NS


def stamped(after: float, before: float, invoke: float = 0) -> History:
    stamps = {"computed_after_ns": ms(after), "computed_before_ns": ms(before)}
    return History().op("c1", "acquire", "ok", 1, invoke, 1000, validity_ms=90.0, **stamps)


def test_a_pause_before_the_timestamp_moves_the_earliest_deadline_back_by_the_pause() -> None:
    section = only(stamped(898, 900).fault("p1", 200, 899, paused_clients=("c1",)))
    assert section["deadline_min"] == pytest.approx(90 + 198)
    assert section["deadline_max"] == 990


def test_a_timestamp_right_after_a_pause_may_be_late_because_of_it() -> None:
    section = only(stamped(900, 900).fault("p1", 200, 890, paused_clients=("c1",)))
    assert section["deadline_min"] <= 90 + 200


def test_a_timestamp_at_the_very_end_of_a_pause_counts_as_taken_in_it() -> None:
    """A client counts as paused for 50 ms after it was resumed."""
    section = only(stamped(899, 900).fault("p1", 200, 849, paused_clients=("c1",)))
    assert section["deadline_min"] == pytest.approx(90 + 200)
    section = only(stamped(899.000001, 900).fault("p1", 200, 849, paused_clients=("c1",)))
    assert section["deadline_min"] == pytest.approx(90 + 899, abs=0.01)


def test_several_pauses_are_all_excluded() -> None:
    history = (
        stamped(890, 900).fault("p1", 300, 400, paused_clients=("c1",)).fault("p2", 450, 895, paused_clients=("c1",))
    )
    assert only(history)["deadline_min"] == pytest.approx(90 + 290)


def test_overlapping_pauses_are_one_pause() -> None:
    history = (
        stamped(898, 900).fault("p1", 200, 700, paused_clients=("c1",)).fault("p2", 600, 899, paused_clients=("c1",))
    )
    assert only(history)["deadline_min"] == pytest.approx(90 + 198)


def test_a_pause_that_was_never_healed_lasts() -> None:
    assert only(stamped(898, 900).fault("p1", 200, None, paused_clients=("c1",)))["deadline_min"] == pytest.approx(288)


def test_a_pause_never_moves_the_computation_before_the_call() -> None:
    assert only(stamped(898, 900, invoke=150).fault("p1", 100, 899, paused_clients=("c1",)))["deadline_min"] == 240


@pytest.mark.parametrize(
    "pause",
    [(200, 700, ("c1",)), (901, 950, ("c1",)), (200, 899, ("c2",))],
    ids=["long before", "after the stamp", "of another client"],
)
def test_a_pause_outside_the_interval_changes_nothing(pause: tuple[float, float, tuple[str, ...]]) -> None:
    began, healed, who = pause
    assert only(stamped(898, 900).fault("p1", began, healed, paused_clients=who))["deadline_min"] == 988


def test_a_pause_does_not_touch_a_reported_deadline() -> None:
    history = History().section("c1", 900, 950, deadline=995, asked=0)
    assert only(history.fault("p1", 200, 899, paused_clients=("c1",)))["deadline_min"] == 995


def test_an_extension_moves_the_deadline() -> None:
    history = History().section("c1", 0, None, deadline=100)
    history.op("c1", "extend", "ok", 1, 50, 52, validity_ms=95.0, deadline_ns=ms(147))
    section = only(history.op("c1", "release", "ok", 1, 140, 141))
    assert (section["deadline_min"], section["deadline_max"], section["extensions"]) == (147, 147, 1)


def test_a_refused_extension_leaves_the_old_lease_unchanged() -> None:
    section = only(History().section("c1", 0, None, deadline=100).op("c1", "extend", "fail", 1, 50, 52))
    assert (section["deadline_min"], section["deadline_max"], section["extensions"]) == (100, 100, 0)


def test_after_a_late_extension_nothing_is_certain() -> None:
    history = History().section("c1", 0, None, deadline=100)
    history.op("c1", "extend", "ok", 1, 110, 120, validity_ms=95.0, deadline_ns=ms(215))
    section = only(history)
    assert (section["deadline_min"], section["deadline_max"]) == (100, 215)


def test_a_token_is_the_lock_s_own_or_the_one_drawn_from_the_resource() -> None:
    history = History().section("c1", 0, 10, token=7, token_source="lock")
    history.section("c2", 20, None).op("c2", "token", "ok", 1, 20, 21, token=8).op("c2", "release", "ok", 1, 30, 31)
    history.section("c1", 40, 50, number=2)
    sections = history.recorded().sections
    assert sections["token_source"].tolist()[:2] == ["lock", "resource"]
    assert sections["token"].tolist()[:2] == [7, 8]
    assert sections[["token", "token_source"]].isna().all(axis=1).tolist() == [False, False, True]


def test_sections_of_one_life_never_overlap() -> None:
    sections = History().section("c1", 0, None).section("c1", 50, 60, number=2, asked=40).sections()
    assert sections[0]["end"] <= sections[1]["start"]


def test_a_log_that_grants_a_section_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="grants section 1 twice"):
        History().section("c1", 0, None).section("c1", 20, 30).sections()


@pytest.mark.parametrize("number", [2**31, 2**40, 2**60, 5 - 2**40, -(2**62)])
def test_sections_are_told_apart_however_large_their_numbers_are(number: int) -> None:
    sections = History().section("c1", 0, 10, number=5).section("c1", 20, 30, number=number).sections()
    assert [(section["start"], section["end"]) for section in sections] == [(0, 10), (20, 30)]


def test_sections_that_64_bits_cannot_number_are_refused() -> None:
    history = History(clients=3).section("c1", 0, 10).section("c2", 20, 30, number=2**62).section("c3", 40, 50)
    with pytest.raises(OverflowError, match="more than 64 bits"):
        history.sections()


def test_without_operations_there_are_no_sections() -> None:
    assert History().sections() == []


def test_a_fraction_of_a_nanosecond_is_rounded_outwards() -> None:
    section = History().op("c1", "acquire", "ok", 1, 0, 20, validity_ms=90.0000005).recorded().sections.iloc[0]
    assert (section.deadline_min_ns, section.deadline_max_ns) == (ms(90), ms(110) + 1)


def test_the_end_of_a_life_without_a_record_ends_no_other_life() -> None:
    history = History().section("c1", 0, 5, life=0).section("c1", 6, 9, life=1, number=2)
    history.section("c2", 0, None, life=0).op("c2", "read", "ok", 1, 30, 40, life=0)
    history.end("c1", "killed", 500, life=2).end("c1", "killed", 500, life=3).end("c9", "killed", 500)
    assert [(s["end"], s["ended"]) for s in history.sections() if s["client"] == "c2"] == [(40, "open")]


def test_a_token_that_a_write_carried_was_not_necessarily_drawn() -> None:
    history = History().section("c1", 0, 10).write("c1", 1, token=9).op("c1", "token", "fail", 1, 1, 2)
    assert history.recorded().sections[["token", "token_source"]].isna().all(axis=None)


# A lock that answered yes and nothing else.


def test_a_lease_that_was_told_at_return_lasts_for_the_granted_time_from_some_time_within_the_call() -> None:
    section = only(History().op("c1", "acquire", "ok", 1, 10, 40, granted_ms=100.0))
    assert section["deadline_max"] == 140
    assert section["deadline_min"] == pytest.approx(109 - 0.05), "less what a healthy server's clock may gain"


def test_the_adapter_may_know_better_when_a_lease_that_was_told_at_return_began() -> None:
    bounds = {"computed_after_ns": ms(35), "computed_before_ns": ms(38)}
    section = only(History().op("c1", "acquire", "ok", 1, 10, 40, granted_ms=100.0, **bounds))
    assert section["deadline_max"] == 138
    assert section["deadline_min"] == pytest.approx(134 - 0.05)


def test_a_reported_validity_is_what_counts_whatever_was_granted() -> None:
    section = only(History().op("c1", "acquire", "ok", 1, 10, 40, validity_ms=80.0, granted_ms=2_000.0))
    assert (section["deadline_min"], section["deadline_max"]) == (90, 120)


def test_a_lease_with_neither_validity_nor_granted_time_may_last_forever() -> None:
    section = only(History().op("c1", "acquire", "ok", 1, 10, 40))
    assert (ms(section["deadline_max"]) >= FOREVER_NS, section["deadline_min"] < 10) == (True, True)


@pytest.mark.parametrize(("validity_ms", "is_void"), [(-1e-6, True), (0.0, True), (1e-6, False)])
def test_a_lease_of_which_nothing_was_left_by_its_locks_account_may_last_forever(
    validity_ms: float, is_void: bool
) -> None:
    history = History().op("c1", "acquire", "ok", 1, 10, 20, validity_ms=validity_ms)
    assert (history.recorded().sections["deadline_max_ns"].iloc[0] == FOREVER_NS) == is_void


@pytest.mark.parametrize("f", ["held", "reenter"])
@pytest.mark.parametrize(
    ("outcome", "more", "bounds"),
    [
        ("ok", {}, (150, 155)),
        ("ok", {"validity_ms": 40.0}, (150, 195)),
        ("ok", {"validity_ms": 40.0, "granted_ms": 60.0}, (150, 215)),
        ("ok", {"granted_ms": 60.0000001}, (150, 215.000001)),
        ("fail", {"granted_ms": 60.0}, (110, 110)),
        ("info", {"granted_ms": 60.0}, (110, 110)),
    ],
)
def test_a_lock_that_says_that_it_is_still_held_vouches_for_it_and_may_have_renewed_it(
    f: str, outcome: str, more: dict[str, float], bounds: tuple[float, float]
) -> None:
    """A nested acquire may be granted what had been free for a while."""
    section = only(History().section("c1", 10, 200, deadline=110).op("c1", f, outcome, 1, 150, 155, **more))
    earliest, latest = bounds
    assert (section["deadline_min"], section["deadline_max"]) == (110 if f == "reenter" else earliest, latest)


def test_of_several_such_answers_the_latest_counts_and_each_for_its_own_section() -> None:
    history = History().section("c1", 10, 200, deadline=110).section("c1", 300, 350, deadline=400, number=2)
    history.op("c1", "held", "ok", 1, 120, 125, granted_ms=90.0).op("c1", "held", "ok", 1, 150, 155)
    first, second = history.sections()
    assert (first["deadline_min"], first["deadline_max"]) == (150, 215)
    assert (second["deadline_min"], second["deadline_max"]) == (400, 400)


def test_such_an_answer_does_not_shorten_a_lease() -> None:
    section = only(History().section("c1", 10, 90, deadline=110).op("c1", "held", "ok", 1, 50, 55, granted_ms=20.0))
    assert (section["deadline_min"], section["deadline_max"]) == (110, 110)


# Leases that lapsed.


def extended(*extensions: tuple[float, float, float]) -> History:
    """c1 is inside from 0 on with a lease until 100; each extension: computed, answered, its deadline."""
    history = History().section("c1", 0, None, deadline=100)
    for computed, answered, deadline in extensions:
        history.op(
            "c1",
            "extend",
            "ok",
            1,
            computed - 1,
            answered,
            validity_ms=deadline - computed,
            deadline_ns=ms(deadline),
        )
    return history


def lapse(history: History) -> tuple[float, float] | None:
    sections = history.recorded().sections
    if "lapsed_to_ns" not in sections:
        return None
    row = sections.iloc[0]
    return (row.lapsed_from_ns - ms(0)) / 1e6, (row.lapsed_to_ns - ms(0)) / 1e6


def test_a_lease_lapses_until_an_extension_is_computed_too_late() -> None:
    assert lapse(extended((110, 120, 215))) == (100, 110)
    assert lapse(extended((100.1, 120, 215))) == (100, 100.1)
    assert lapse(extended((100, 120, 215))) is None
    assert lapse(History().section("c1", 0, 50)) is None


def test_the_longest_of_several_lapses_is_kept() -> None:
    assert lapse(extended((110, 120, 215), (235, 240, 300))) == (215, 235)
    assert lapse(extended((120, 121, 215), (225, 240, 300))) == (100, 120)
    assert lapse(extended((110, 111, 150), (140, 141, 230))) == (100, 110)


def test_each_section_has_its_own_lapses() -> None:
    history = extended((110, 120, 215)).section("c2", 0, 50).section("c3", 1, None, deadline=101)
    history.op("c3", "extend", "ok", 1, 110, 120, validity_ms=100.0, deadline_ns=ms(205))
    sections = history.recorded().sections
    lapses = {row.client: (row.lapsed_from_ns, row.lapsed_to_ns) for row in sections.itertuples()}
    assert lapses == {"c1": (ms(100), ms(110)), "c2": (0, 0), "c3": (ms(101), ms(105))}


def test_who_was_told_meanwhile_that_the_lock_is_held_had_a_lease() -> None:
    assert lapse(extended((110, 120, 215)).op("c1", "held", "ok", 1, 105, 106)) == (-ms(0) / 1e6, -ms(0) / 1e6)


def test_an_extension_that_tells_only_its_deadline_cannot_have_been_computed_before_it_was_asked_for() -> None:
    def lapse_before(asked: float, **told: Any) -> tuple[float, float] | None:
        history = History().section("c1", 0, None, deadline=100)
        return lapse(history.op("c1", "extend", "ok", 1, asked, 120, **told))

    assert lapse_before(110, deadline_ns=ms(205)) == (100, 110)
    assert lapse_before(110, deadline_ns=ms(205), granted_ms=100.0) == (100, 110)
    assert lapse_before(110, deadline_ns=ms(205), computed_after_ns=ms(115)) == (100, 115)
    assert lapse_before(100, deadline_ns=ms(205)) is None


def test_an_extension_that_tells_no_time_shows_no_lapse() -> None:
    history = History().section("c1", 0, None, deadline=100).op("c1", "extend", "ok", 1, 110, 120)
    assert lapse(history) is None
    history = History().section("c1", 0, None, deadline=100).op("c1", "extend", "ok", 1, 110, 120, granted_ms=100.0)
    assert lapse(history) == (100, 110)


def test_a_section_that_a_later_life_was_granted_twice_is_named() -> None:
    with pytest.raises(UsageError, match="the log of c2, life 1, grants section 5 twice"):
        History().section("c1", 10, 20).section("c2", 30, 40, number=5).section("c2", 50, 60, number=5).recorded()
