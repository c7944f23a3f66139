"""Nothing is blamed on a lock while a server that is not the run's own may have lost its keys."""

from __future__ import annotations

import pytest

from harness.checkers.judge import judge
from tests.judge.histories import History


def overlap(**config: object) -> History:
    return History(**config).section("c1", 0, 50).section("c2", 20, 60)


@pytest.mark.parametrize(("at", "blame"), [(None, "lock"), ("redis://db:6379", "undecided")])
def test_the_lock_is_not_blamed_once_a_server_of_the_users_own_failed(at: str | None, blame: str) -> None:
    history = overlap(nodes_at=at).unplanned("u1", 10, None, nodes=("n1",), how_down="unasked")
    verdict = judge(history.recorded())
    assert {each.blame for each in verdict.findings if each.kind == "overlap"} == {blame}
    assert (verdict.verdict == "violation") == (blame == "lock")


def test_it_is_blamed_while_they_all_answer() -> None:
    verdict = judge(overlap(nodes_at="redis://db:6379").recorded())
    assert {each.blame for each in verdict.findings if each.kind == "overlap"} == {"lock"}
