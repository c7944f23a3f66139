"""A client that acquires the lock that it holds: its answers are counted."""

from __future__ import annotations

from harness.checkers.reentry import Figures, check
from tests.golden import Golden
from tests.judge.histories import History


def test_only_acquires_by_the_holder_count_by_what_came_of_them(golden: Golden) -> None:
    history = History().section("c1", 0, 90)
    for at, outcome in ((10, "ok"), (20, "ok"), (30, "ok"), (40, "fail"), (50, "fail"), (60, "info")):
        history.op("c1", "reenter", outcome, 1, at, at + 5)
    figures = check(history.op("c2", "acquire", "fail", 1, 0, 5).recorded()).figures
    assert figures == Figures(granted=3, refused=2, unknown=1)
    golden("\n".join([row.text for row in figures.rows()]))


def test_where_nobody_tried_there_is_nothing_to_say() -> None:
    assert check(History().section("c1", 0, 90).recorded()).figures is None
