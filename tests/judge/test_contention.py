"""How a contended lock is passed on."""

from __future__ import annotations

import msgspec

from harness.checkers.contention import Figures, check
from tests.golden import Golden
from tests.judge.histories import History


def figures(history: History) -> Figures:
    found = check(history.recorded()).figures
    assert isinstance(found, Figures)
    return found


def test_every_attempt_for_a_grant_is_counted_and_attempts_for_nothing_are_not() -> None:
    history = History().op("c1", "acquire", "fail", 1, 0, 1).op("c1", "acquire", "info", 1, 2, 3).section("c1", 5, 10)
    history.section("c2", 20, 30).op("c2", "acquire", "fail", 2, 31, 32)
    attempts = figures(history).attempts
    assert (attempts.count, attempts.max, attempts.p50) == (2, 3.0, 2.0)


def test_grants_to_others_while_a_client_waits_are_counted_for_its_key() -> None:
    history = History(clients=3).op("c1", "acquire", "fail", 1, 0, 1)
    history.section("c2", 10, 20).section("c3", 30, 40, key="k2").section("c2", 50, 60, number=2)
    overtaken = figures(history.section("c1", 70, 80, asked=65)).overtaken
    assert (overtaken.count, overtaken.max) == (4, 2.0)


def test_a_handover_is_from_a_release_to_the_next_grant_where_that_client_was_waiting() -> None:
    history = History(clients=3).section("c1", 0, 10).section("c2", 13, 20, asked=5)
    history.section("c3", 90, 95, asked=80).section("c1", 0, 10, key="k2", number=2)
    handover = figures(history).handover_ms
    assert (handover.count, handover.max) == (1, 3.0)


def test_who_asks_as_another_is_let_in_was_not_overtaken_by_it() -> None:
    history = History().section("c2", 65, 68).section("c1", 70, 80, asked=65)
    assert figures(history).overtaken.max == 0.0


def test_a_client_that_asks_and_is_granted_at_the_moment_of_the_release_is_handed_the_lock() -> None:
    handover = figures(History().section("c1", 0, 10).section("c2", 10, 20, asked=10)).handover_ms
    assert (handover.count, handover.max) == (1, 0.0)


def test_a_second_client_let_in_early_is_no_handover() -> None:
    assert figures(History().section("c1", 0, 30).section("c2", 10, 40, asked=5)).handover_ms.count == 0


def test_a_client_that_still_waits_at_the_end_is_named_with_its_time(golden: Golden) -> None:
    history = History().section("c1", 0, 10).op("c2", "acquire", "fail", 1, 100, 110)
    history.op("c2", "acquire", "info", 1, 900, 1050)
    found = figures(history)
    assert [(share.client, share.sections, share.unanswered_ms) for share in found.shares] == [
        ("c1", 1, None),
        ("c2", 0, 1000.0),
    ]
    golden(next(row.text for row in found.rows() if row.label == "shares"))


def test_each_client_has_its_own_attempts_and_waits() -> None:
    history = History(clients=3).section("c1", 10, 20, asked=5).op("c1", "acquire", "fail", 2, 21, 22)
    history.section("c1", 40, 50, number=2, asked=31).section("c2", 60, 70, asked=59)
    found = figures(history)
    assert [(share.attempts, share.wait_p50_ms, share.wait_max_ms) for share in found.shares] == [
        (1.5, 12.0, 19.0),
        (1.0, 1.0, 1.0),
        (None, None, None),
    ]
    (part,) = found.parts()
    assert part.tables[0].rows == (
        ("c1", ("2", "1.5", "12 ms", "19 ms", "–")),
        ("c2", ("1", "1", "1.0 ms", "1.0 ms", "–")),
        ("c3", ("0", "–", "–", "–", "–")),
    )


def test_only_a_client_whose_last_call_was_to_get_in_was_still_waiting() -> None:
    history = History(clients=3).section("c1", 0, None).section("c2", 0, None, key="k2")
    history.op("c2", "release", "info", 1, 900, 1050, key="k2").op("c3", "acquire", "info", 1, 900, 1050)
    assert [share.unanswered_ms for share in figures(history).shares] == [None, None, 200.0]


def test_without_an_end_of_the_load_nobody_is_said_to_have_been_waiting_at_it() -> None:
    history = History().op("c1", "acquire", "fail", 1, 0, 1)
    history.timeline = msgspec.structs.replace(history.timeline, stop_ns=None)
    assert [share.unanswered_ms for share in figures(history).shares] == [None, None]


def test_a_run_without_sections_has_figures_that_say_so() -> None:
    found = figures(History().op("c1", "acquire", "fail", 1, 0, 1))
    assert (found.attempts.count, found.overtaken.count, found.handover_ms.count) == (0, 0, 0)
    assert [row.label for row in found.rows()] == ["attempts", "overtook", "handover", "shares"]
    assert "–" in next(iter(found.tiles())).value
