"""From the witness's events to what the nodes held."""

from __future__ import annotations

from typing import Any

from fencepost.history import KeyEvent
from harness.history.fault_windows import FOREVER_NS
from harness.history.key_holdings import derive_holdings
from tests.judge.histories import START_NS, History, ms

NEVER = (FOREVER_NS - START_NS) / 1e6


def holdings(history: History) -> list[dict[str, Any]]:
    """The rows, with times in milliseconds since the start."""
    rows = derive_holdings(history.key_events).holdings
    named = []
    for row in rows.to_dict("records"):
        for name in [name for name in row if name.endswith("_ns")]:
            row[name.removesuffix("_ns")] = (row.pop(name) - START_NS) / 1e6
        named.append(row)
    return named


def watch_windows(history: History) -> list[tuple[str, float, float, int]]:
    windows = derive_holdings(history.key_events).windows
    return [
        (node, (one.from_ns - START_NS) / 1e6, (one.to_ns - START_NS) / 1e6, one.run)
        for node, own in windows.items()
        for one in own
    ]


def only(history: History) -> dict[str, Any]:
    (row,) = holdings(history)
    return row


def test_a_key_is_held_from_its_set_to_its_deletion() -> None:
    row = only(History().watch("n1").seen("n1", "set", 10, "v", since=8, ttl=100).seen("n1", "deleted", 30, since=25))
    assert (row["from_min"], row["from_max"], row["to_min"], row["to_max"]) == (8, 10, 25, 30)
    assert (row["node"], row["key"], row["value"], row["began"], row["ended"]) == ("n1", "k1", "v", "set", "deleted")
    assert row["expires"] == 110


def test_a_deletion_that_may_precede_the_set_does_not_end_the_key_before_it() -> None:
    row = only(History().watch("n1").seen("n1", "set", 10, "v", since=8).seen("n1", "deleted", 11, since=2))
    assert (row["from_min"], row["to_min"], row["to_max"]) == (8, 8, 11)


def test_a_value_is_overwritten_by_the_next_set() -> None:
    first, second = holdings(
        History().watch("n1").seen("n1", "set", 10, "a").seen("n1", "set", 20, "b", since=18).seen("n1", "blind", 30)
    )
    assert (first["ended"], first["to_min"], first["to_max"]) == ("overwritten", 18, 20)
    assert (second["value"], second["ended"]) == ("b", "lost")


def test_a_set_of_the_value_that_was_there_extends_it() -> None:
    history = History().watch("n1").seen("n1", "set", 10, "v", ttl=100).seen("n1", "set", 50, "v", ttl=200)
    row = only(history.seen("n1", "deleted", 60))
    assert (row["from_max"], row["to_max"], row["ended"], row["expires"]) == (10, 60, "deleted", 250)


def test_sets_of_values_that_could_not_be_read_are_not_taken_for_the_same() -> None:
    first, second = holdings(
        History().watch("n1").seen("n1", "set", 10).seen("n1", "set", 20).seen("n1", "deleted", 30)
    )
    assert (first["ended"], second["ended"]) == ("set unread", "deleted")


def test_a_set_that_could_not_be_read_may_have_been_of_the_same_value() -> None:
    history = History().watch("n1").seen("n1", "set", 10, "v").seen("n1", "set", 20).seen("n1", "set", 30, "w")
    first, second, third = holdings(history.seen("n1", "blind", 40))
    assert [row["ended"] for row in (first, second, third)] == ["set unread", "overwritten", "lost"]


def test_when_the_time_to_live_was_set_anew() -> None:
    history = History().watch("n1").seen("n1", "set", 10, "v", ttl=100)
    assert only(history)["renewals"] == ()
    assert only(history.seen("n1", "set", 20, "v", ttl=100))["renewals"] == (ms(20),)
    assert only(history.seen("n1", "prolonged", 30, "v", ttl=100))["renewals"] == (ms(20), ms(30))


def test_a_missing_value_stays_missing() -> None:
    row = only(History().watch("n1").seen("n1", "set", 10).seen("n1", "expired", 20))
    assert row["value"] is None
    assert row["ended"] == "expired"


def test_a_key_without_a_known_time_to_live_does_not_expire() -> None:
    assert only(History().watch("n1").seen("n1", "set", 10, "v").seen("n1", "deleted", 20))["expires"] == NEVER


def test_a_key_that_the_node_evicts_is_gone() -> None:
    row = only(History().watch("n1").seen("n1", "set", 10, "v", ttl=100).seen("n1", "evicted", 30, since=25))
    assert (row["to_min"], row["to_max"], row["ended"]) == (25, 30, "evicted")


def test_extending_moves_the_expiry() -> None:
    history = History().watch("n1").seen("n1", "set", 10, "v", ttl=100).seen("n1", "prolonged", 50, "v", ttl=200)
    assert only(history.seen("n1", "deleted", 60))["expires"] == 250


def test_events_of_a_key_whose_set_was_not_observed_are_left_out() -> None:
    assert holdings(History().watch("n1").seen("n1", "prolonged", 5).seen("n1", "deleted", 10)) == []


def test_a_key_on_an_unobserved_node_may_exist_until_the_node_is_watched_again() -> None:
    history = History().watch("n1").seen("n1", "set", 10, "v").seen("n1", "blind", 20)
    assert (only(history)["to_min"], only(history)["to_max"]) == (20, NEVER)
    history.seen("n1", "watching", 50, "again", since=45)
    assert (only(history)["to_min"], only(history)["to_max"]) == (20, 50)
    history.seen("n1", "blind", 60).seen("n1", "watching", 90, "again", since=85)
    assert (only(history)["to_min"], only(history)["to_max"]) == (20, 50)


def test_a_key_that_is_found_may_have_existed_since_watching_ended() -> None:
    history = History().watch("n1").seen("n1", "blind", 20).seen("n1", "seen", 48, "v", since=45, ttl=100)
    row = only(history.seen("n1", "watching", 50, "again").seen("n1", "deleted", 60))
    assert (row["from_min"], row["from_max"], row["began"], row["run"]) == (20, 48, "seen", 1)


def test_runs_of_a_server_are_distinguished() -> None:
    history = History().watch("n1").seen("n1", "set", 5, "a").seen("n1", "blind", 10).seen("n1", "seen", 20, "a")
    history.seen("n1", "watching", 21, "n1-first").seen("n1", "blind", 30).seen("n1", "seen", 40, "a")
    history.seen("n1", "watching", 41, "n1-second").seen("n1", "set", 42, "b").seen("n1", "blind", 50)
    assert [row["run"] for row in holdings(history)] == [0, 0, 1, 1]
    assert watch_windows(history) == [("n1", 0, 10, 0), ("n1", 21, 30, 0), ("n1", 41, 50, 1)]


def test_the_run_of_a_server_is_unknown_if_watching_ended_before_it_was_asked() -> None:
    history = History().seen("n1", "seen", 5, "a").seen("n1", "blind", 10).seen("n1", "watching", 21, "first")
    assert [row["run"] for row in holdings(history)] == [-1]


def test_an_event_without_a_lower_bound_is_no_older_than_the_watch_window() -> None:
    history = History().watch("n1").seen("n1", "blind", 20).seen("n1", "watching", 30, "n1-first")
    history.key_events.append(KeyEvent("n1", START_NS + 40_000_000, "set", "k1", "v"))
    assert (only(history)["from_min"], only(history)["from_max"]) == (20, 40)


def test_each_node_is_watched_separately() -> None:
    history = History().watch("n1", "n2").seen("n1", "set", 5, "a").seen("n2", "set", 6, "a").seen("n1", "deleted", 7)
    assert [(row["node"], row["ended"]) for row in holdings(history)] == [("n1", "deleted"), ("n2", "lost")]


def test_a_log_that_breaks_off_proves_nothing_after_its_last_line() -> None:
    history = History().watch("n1").seen("n1", "set", 5, "a").seen("n1", "set", 8, "b", key="k2")
    assert [(row["to_min"], row["ended"]) for row in holdings(history)] == [(8, "lost"), (8, "lost")]
    assert watch_windows(history) == [("n1", 0, 8, 0)]


def test_what_happened_while_the_last_event_of_a_log_that_breaks_off_was_on_its_way_is_unknown() -> None:
    history = History().watch("n1").seen("n1", "set", 5, "a", since=3).seen("n1", "deleted", 20, since=15)
    assert watch_windows(history) == [("n1", 0, 15, 0)]
    history.seen("n1", "set", 40, "b", since=30)
    assert watch_windows(history) == [("n1", 0, 30, 0)]
    assert [(row["value"], row["to_min"], row["ended"]) for row in holdings(history)] == [
        ("a", 15, "deleted"),
        ("b", 30, "lost"),
    ]


def test_a_watch_window_does_not_end_before_it_starts() -> None:
    history = History().seen("n1", "watching", 10, "x").seen("n1", "blind", 9)
    assert watch_windows(history) == [("n1", 10, 10, 0)]


def test_without_events_there_are_no_holdings() -> None:
    assert not len(derive_holdings([]).holdings)
    assert not derive_holdings([KeyEvent("n1", 1, "blind")]).windows
