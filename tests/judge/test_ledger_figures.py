"""How many changes of keys the record explains."""

from __future__ import annotations

from harness.checkers.ledger import Change, Figures, check
from tests.golden import Golden

from .histories import History


def figures(history: History) -> Figures | None:
    found = check(history.recorded()).figures
    assert found is None or isinstance(found, Figures)
    return found


def two_changes() -> History:
    history = History().watch("n1").request("c1", "n1", "SET k1 a", 10, 11)
    return history.seen("n1", "set", 13, "a", since=5).seen("n1", "deleted", 40, since=30)


def text(history: History) -> str:
    found = figures(history)
    assert found is not None
    (row,) = found.rows()
    return row.text


def test_each_change_has_its_request(golden: Golden) -> None:
    history = two_changes().request("c1", "n1", "DEL k1", 33, 34, reply="1")
    assert figures(history) == Figures(2)
    golden(text(history))


def test_a_change_without_a_request_is_counted_and_shown(golden: Golden) -> None:
    history = two_changes()
    assert figures(history) == Figures(2, without=1, examples=(Change("n1", "k1", "deleted", 40.0),))
    golden(text(history))


def test_expiry_needs_no_request() -> None:
    history = History().watch("n1").request("c1", "n1", "SET k1 a", 10, 11).seen("n1", "set", 13, "a", since=5)
    assert figures(history.seen("n1", "expired", 140, since=130)) == Figures(2)


def test_what_happened_out_of_sight_is_not_counted() -> None:
    history = two_changes().seen("n1", "blind", 50).seen("n1", "seen", 60, "b").seen("n1", "watching", 60, "second")
    found = figures(history)
    assert found is not None
    assert (found.changes, found.without) == (2, 1)


def test_a_node_whose_record_is_not_whole_is_left_out(golden: Golden) -> None:
    history = two_changes().seen("n1", "expired", 140).watch("n2").seen("n2", "set", 13, "a", since=5)
    history.not_recorded.add("n1")
    assert figures(history) == Figures(1, without=1, not_recorded=("n1",), examples=(Change("n2", "k1", "set", 13.0),))
    golden(text(history))


def test_without_a_record_of_the_links_nothing_is_counted(golden: Golden) -> None:
    history = History().watch("n1").seen("n1", "set", 13, "a", since=5)
    history.wire = False
    assert figures(history) == Figures(None)
    golden(text(history))


def test_nodes_that_nobody_watched_have_no_figures() -> None:
    assert figures(History().request("c1", "n1", "SET k1 a", 10, 11)) is None
