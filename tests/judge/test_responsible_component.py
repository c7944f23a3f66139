"""Which part of the lock failed when two clients were inside within their leases."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.exclusion import check
from tests.judge.histories import History

NODES = ("n1", "n2", "n3")


def two(**config: Any) -> History:
    """c1 is inside from 10 to 60, c2 from 30 to 50."""
    history = History(**config).watch(*NODES).section("c1", 10, 60, asked=5).sets("c1", "v1")
    return history.section("c2", 30, 50, asked=25).sets("c2", "v2")


def failed(history: History) -> dict[str, int]:
    for node in NODES:
        history.seen(node, "blind", 900)
    answer = check(history.recorded())
    figures: Any = answer.figures
    (finding,) = answer.findings
    assert finding.blame == "lock"
    found = {part: number for part, number in (figures.lock_by_part or {}).items() if number}
    assert sum(found.values()) in (0, finding.count)
    return found


def set_on(history: History, value: str, at: float, *nodes: str, ttl: int = 100) -> History:
    for node in nodes:
        history.seen(node, "set", at, value, ttl=ttl)
    return history


def restarted(history: History, *nodes: str, at: float = 15) -> History:
    for node in nodes:
        history.seen(node, "blind", at).seen(node, "watching", at + 5, "second")
    return history


def test_a_majority_that_was_never_asked_is_the_librarys_mistake() -> None:
    assert failed(set_on(set_on(two(), "v1", 8, "n1", "n2"), "v2", 28, "n3")) == {"library": 1}


def test_keys_that_were_deleted_or_lived_too_short_are_the_librarys_mistake() -> None:
    history = set_on(two(), "v1", 8, "n1", "n2", "n3").seen("n1", "deleted", 20).seen("n2", "deleted", 20)
    assert failed(set_on(history, "v2", 28, "n1", "n2")) == {"library": 1}
    history = set_on(two(), "v1", 8, "n1", "n2", "n3", ttl=12).seen("n1", "expired", 20).seen("n2", "expired", 20)
    assert failed(set_on(history, "v2", 28, "n1", "n2")) == {"library": 1}


def test_keys_that_restarted_servers_no_longer_had() -> None:
    history = restarted(set_on(two(), "v1", 8, "n1", "n2"), "n1", "n2")
    assert failed(set_on(history, "v2", 28, "n1", "n2")) == {"servers": 1}
    history = set_on(set_on(two(), "v1", 8, "n1", "n2"), "other", 3, "n3")
    assert failed(set_on(restarted(history, "n1"), "v2", 28, "n1", "n3")) == {"servers": 1}


def test_a_server_that_was_never_seen_with_the_value_may_have_had_nothing_to_forget() -> None:
    history = restarted(set_on(two(), "v1", 8, "n1"), "n2")
    assert failed(set_on(history, "v2", 28, "n2", "n3")) == {"unknown": 1}


def test_keys_of_a_client_that_measured_by_a_clock_that_was_wrong() -> None:
    def expired(ended: str, client: str, healed: float = 22) -> dict[str, int]:
        history = set_on(two(), "v1", 8, "n1", "n2", "n3", ttl=12)
        history.fault("clock", 3, healed, wrong_client_clocks=(client,), clock_off_ms=500)
        for node in ("n1", "n2"):
            history.seen(node, ended, 20)
        return failed(set_on(history, "v2", 28, "n1", "n2"))

    assert expired("expired", "c1") == {"client's clock": 1}
    assert expired("expired", "c1", healed=4) == {"library": 1}, "it was right again before the lock was asked for"
    assert expired("expired", "c3") == {"library": 1}
    assert expired("deleted", "c1") == {"library": 1}, "no clock deletes keys"
    history = set_on(two(), "v1", 8, "n1", "n2", "n3", ttl=12).seen("n3", "deleted", 15)
    history.fault("clock", 3, 22, wrong_client_clocks=("c1",), clock_off_ms=500)
    history.seen("n1", "expired", 20).seen("n2", "expired", 20)
    assert failed(set_on(history, "v2", 28, "n1", "n2")) == {"client's clock": 1}, "two would have been a majority"


def test_keys_that_a_fast_clock_expired() -> None:
    history = set_on(two(), "v1", 8, "n1", "n2")
    for node in ("n1", "n2"):
        history.seen(node, "expired", 20)
    assert failed(set_on(history, "v2", 28, "n1", "n2")) == {"clock": 1}


@pytest.mark.parametrize(("healed", "part"), [(None, "clock"), (15, "clock"), (4.9, "library")])
def test_keys_that_expired_on_time_are_not_held_against_a_library_whose_servers_had_wrong_clocks(
    healed: float | None, part: str
) -> None:
    """A clock may step between a SET and the question for its time to live. Keys that a wrong clock may have kept are
    gone a lease, 100 ms, after it was right again."""
    history = set_on(two(), "v1", 8, "n1", "n2", ttl=12)
    history.fault("f1", -300, healed and healed - 100, wrong_clocks=("n1", "n2"))
    for node in ("n1", "n2"):
        history.seen(node, "expired", 20)
    assert failed(set_on(history, "v2", 28, "n1", "n2")) == {part: 1}


def test_of_as_many_nodes_that_forgot_and_that_were_too_fast_it_was_the_servers_that_forgot() -> None:
    history = set_on(two(), "v1", 8, "n1", "n2").seen("n1", "expired", 20)
    assert failed(set_on(restarted(history, "n2"), "v2", 28, "n1", "n2")) == {"servers": 1}


@pytest.mark.parametrize(("expired", "part"), [(("n1",), "servers"), (("n1", "n2"), "clock")])
def test_what_more_nodes_did_counts(expired: tuple[str, ...], part: str) -> None:
    history = set_on(two(), "v1", 8, *NODES)
    for node in expired:
        history.seen(node, "expired", 20)
    restarted(history, *(node for node in NODES if node not in expired))
    assert failed(set_on(history, "v2", 28, "n1", "n2")) == {part: 1}


def test_a_library_that_did_wrong_as_well_did_wrong() -> None:
    """The servers forgot the first client's keys, and the second one had no majority."""
    history = restarted(set_on(two(), "v1", 8, "n1", "n2"), "n1", "n2")
    assert failed(set_on(history, "v2", 28, "n1")) == {"library": 1}


def test_a_client_that_was_let_in_without_any_key_was_let_in_by_the_library() -> None:
    history = set_on(two(), "v1", 8, *NODES).seen("n1", "deleted", 55).seen("n2", "deleted", 55)
    assert failed(history) == {"library": 1}


def test_nodes_that_were_not_seen_tell_nothing() -> None:
    history = History().section("c1", 10, 60).section("c2", 30, 50)
    figures: Any = check(history.recorded()).figures
    assert figures.lock_by_part is None
    history = set_on(two(), "v1", 8, "n1", "n2").seen("n1", "blind", 15).seen("n2", "blind", 15)
    history.seen("n1", "watching", 70, "second").seen("n2", "watching", 70, "second")
    assert failed(history) == {"unknown": 1}
    history = set_on(two(), "v1", 8, *NODES)
    history.told_values.clear()
    assert failed(history) == {}


def test_the_finding_and_the_summary_say_it() -> None:
    history = restarted(set_on(two(), "v1", 8, "n1", "n2"), "n1", "n2")
    set_on(history, "v2", 28, "n1", "n2")
    for node in NODES:
        history.seen(node, "blind", 900)
    answer = check(history.recorded())
    assert answer.findings[0].text.endswith("(server lost the key: 1)")
    figures: Any = answer.figures
    assert [row.text for row in figures.rows()][1] == "server lost the key: 1"
    assert figures.totals() == {"overlaps, servers forgot keys": 1}
