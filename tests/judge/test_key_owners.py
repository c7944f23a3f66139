"""Whose the keys on the nodes were: the moments that decide it, and values with several fields."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.key_owners import Owners
from tests.judge.histories import History, ms


def inside(client: str = "c1", value: str = "v1", *, start: float = 10, end: float = 50, **more: Any) -> History:
    """c1 asked at 5 and was inside from 10 to 50; its lock showed `v1`."""
    return History().watch("n1").section(client, start, end, asked=start - 5, **more).shows(client, value)


def owners_of(history: History) -> Owners:
    owners = history.recorded().owners
    assert owners is not None
    return owners


def values(history: History) -> list[str | None]:
    return list(owners_of(history).holdings["value"])


def extended(*, at: float = 20, over: str = "v2", asked: float = 18) -> History:
    """An extension that set a new value: shown, so that it is known that this lock's extensions do."""
    history = inside().shows("c1", over).op("c1", "extend", "ok", 1, asked, at + 2, validity_ms=90, deadline_ns=ms(120))
    return history.seen("n1", "set", 8, "v1", since=7, ttl=100).seen("n1", "set", at, over, since=at - 1, ttl=100)


@pytest.mark.parametrize(("since", "is_its"), [(20, True), (50, True), (50.1, False)])
def test_until_its_end_a_section_may_own_a_value_that_nobody_showed(since: float, is_its: bool) -> None:
    history = extended().seen("n1", "set", 60, "v3", since=since, ttl=100)
    assert owners_of(history).values == {0: {"v1", "v2", "v3"} if is_its else {"v1", "v2"}}


@pytest.mark.parametrize(("asked", "is_its"), [(18, True), (18.1, False)])
def test_from_its_first_extension_on_a_section_may_own_such_a_value(asked: float, is_its: bool) -> None:
    history = inside().shows("c1", "v3").seen("n1", "set", 8, "v1", since=7, ttl=100)
    history.op("c1", "extend", "fail", 1, asked, 19).op("c1", "extend", "ok", 1, 30, 33, validity_ms=9)
    history.seen("n1", "set", 18, "v2", since=16, ttl=100).seen("n1", "set", 31, "v1", since=29, ttl=100)
    history.seen("n1", "set", 32, "v3", since=31, ttl=100)
    assert owners_of(history).values == {0: {"v1", "v2", "v3"} if is_its else {"v1", "v3"}}


@pytest.mark.parametrize(("held", "shown"), [('{"owner": "v1"}', {}), ("v1", {0: {"v1"}, 1: {"v2"}})])
def test_values_that_no_node_was_seen_to_hold_are_kept_in_another_form(held: str, shown: dict[int, set[str]]) -> None:
    """One of them is enough: then the other was never set."""
    history = inside().section("c2", 60, 90).shows("c2", "v2").seen("n1", "set", 8, held, since=7, ttl=100)
    owners = owners_of(history.seen("n1", "set", 58, '{"owner": "v2"}', since=57, ttl=100))
    assert owners.values == shown
    assert owners.are_shown == bool(shown)
    assert len(owners.holdings) == 2


@pytest.mark.parametrize(
    ("own", "waiting", "is_shown"), [('{"owner": "v1"}', "v1", False), (None, "v1", True), ("-12", "v1", True)]
)
def test_the_lock_may_be_kept_in_another_form_than_a_key_beside_it(
    own: str | None, waiting: str, is_shown: bool
) -> None:
    """Unless its own key was not read, or counts something."""
    history = inside().seen("n1", "set", 8, own, since=7, ttl=100)
    owners = owners_of(history.seen("n1", "set", 9, waiting, since=8, ttl=100, key="k1:waiting"))
    assert owners.are_shown == is_shown
    assert owners.values == ({0: {"v1"}} if is_shown else {})
    assert owners.holdings["key"].tolist() == (["k1", "k1:waiting"] if is_shown else ["k1"])
    assert owners.copies == (set() if is_shown else {"k1:waiting"})


@pytest.mark.parametrize(("second", "section"), [("v2", 0), ("v1", 1)])
def test_a_field_names_a_client_only_if_it_shows_no_other(second: str, section: int) -> None:
    """Set for its first section, and come late, when it had called again."""
    history = inside().section("c1", 70, 90, number=2, asked=60).shows("c1", second, number=2)
    history.seen("n1", "set", 65, "v1", since=64, ttl=100, is_hash=True).seen("n1", "deleted", 95)
    assert owners_of(history).holdings["section"].tolist() == [section]


def test_where_no_value_could_be_read_its_form_is_not_known() -> None:
    assert owners_of(inside().seen("n1", "set", 8, None, since=7, ttl=100)).values == {}


def test_a_copy_of_the_key_is_not_the_lock() -> None:
    """The third one waits in vain, and only the key tells its value from the others."""
    history = inside().seen("n1", "set", 8, "v1", since=7, ttl=100)
    for at, value in ((9, "v1"), (20, "waits")):
        history.seen("n1", "set", at, value, ttl=100, key="last")
    owners = owners_of(history)
    assert owners.holdings["key"].tolist() == ["k1"]
    assert owners.copies == {"last"}


@pytest.mark.parametrize(
    ("held", "permits", "kept"),
    [
        ((("n1", "v1"), ("n1", "v2")), 1, False),
        ((("n1", "v1"), ("n2", "v2")), 1, True),
        ((("n1", "v1"),), 1, True),
        ((("n1", "v1"), ("n1", "v2")), 2, True),
    ],
)
def test_of_a_copy_most_is_under_the_lock_keys_own_names(
    held: tuple[tuple[str, str], ...], permits: int, kept: bool
) -> None:
    """On the same nodes. Each section but the last has its own key, too. Places of a semaphore are no copies."""
    history = History(workload="semaphore" if permits > 1 else "fenced-counter", permits=permits).watch("n1", "n2")
    for number, (node, value) in enumerate((*held, ("n1", "v3")), 1):
        client, key = f"c{number}", f"k{number}"
        history.section(client, 10, 50, asked=5, key=key).shows(client, value, key=key)
        if value != "v3":
            history.seen("n1", "set", 8, value, ttl=100, key=key)
        history.seen(node, "set", 8 + number, value, ttl=100, key="other")
    owners = owners_of(history)
    assert ("other" in set(owners.holdings["key"])) == kept
    assert owners.copies == (set() if kept else {"other"})


def test_a_value_that_is_not_known_is_nobodys() -> None:
    history = (
        extended().section("c2", 90, 95, asked=22).shows("c2", "a").section("c3", 96, 97, asked=22).shows("c3", "b")
    )
    history.seen("n1", "set", 30, "a, b", since=29, is_hash=True)
    owners = owners_of(history)
    assert values(history) == ["v1", "v2", None]
    assert owners.holdings["section"].tolist() == [0, 0, -1]
    assert owners.values == {0: {"v1", "v2"}, 1: {"a"}, 2: {"b"}}


def test_a_string_has_no_fields() -> None:
    assert values(inside().seen("n1", "set", 8, "v1, v2")) == ["v1, v2"]
    assert values(inside().seen("n1", "set", 8, "v1, v2", is_hash=True)) == ["v1"]


def test_a_field_may_be_a_clients_from_the_moment_on_in_which_it_asked() -> None:
    assert values(inside().seen("n1", "set", 5, "v1, v2", is_hash=True)) == ["v1"]
    assert values(inside().seen("n1", "set", 4.9, "v1, v2", is_hash=True)) == ["v1, v2"]


def test_fields_that_nobody_showed_and_those_that_were_shown_as_one_value_stay_as_they_are() -> None:
    assert values(inside().seen("n1", "set", 8, "x, y", is_hash=True)) == ["x, y"]
    assert values(inside().shows("c1", "v1, v2").seen("n1", "set", 8, "v1, v2", is_hash=True)) == ["v1, v2"]


def test_of_a_clients_fields_the_one_that_it_asked_for_last_counts() -> None:
    history = inside().section("c1", 70, 80, asked=65, number=2).shows("c1", "a2", number=2)
    assert values(history.seen("n1", "set", 68, "a2, v1", is_hash=True)) == ["a2"]


@pytest.mark.parametrize("since", [7, 11])
def test_the_last_call_of_a_client_that_died_is_known_if_it_was_granted_at_once(since: float) -> None:
    """So soon that the call which the dead client may still have made may have begun in the same moment."""
    history = History().watch("n1").section("c1", 10, None, asked=10).end("c1", "killed", 90).shows("c1", "client:1")
    history.seen("n1", "set", 12, "client:1", since=since, is_hash=True)
    assert owners_of(history).holdings["section"].tolist() == [0]


def test_a_key_that_no_acquire_sets_is_not_the_lock_whatever_its_name() -> None:
    """The lock is in another database; under its name, a release leaves the lease's value as the last one that was."""
    history = History().watch("n1").section("c1", 10, 50, asked=8).section("c2", 60, 80, asked=55)
    for client, value, got, left in (("c1", "one", 9, 50.2), ("c2", "two", 58, 80.2)):
        history.seen("n1", "set", got + 0.5, value, since=got, ttl=100, key="k1 (database 3)")
        history.request(client, "n1", f"SET k1 {value} NX PX 100", got, got + 0.3, database=3)
        history.seen("n1", "set", left + 0.2, value, since=left).request(
            client, "n1", f"SET k1 {value}", left, left + 0.1
        )
        history.seen("n1", "deleted", left + 0.5, since=left + 0.3, key="k1 (database 3)").shows(client, value)
        history.request(client, "n1", "DEL k1", left + 0.3, left + 0.4, reply="1", database=3)
    owners = owners_of(history)
    holdings = owners.holdings
    assert list(zip(holdings["key"], holdings["lock_key"], strict=True)) == [("k1 (database 3)", "k1")] * 2
    assert owners.copies == {"k1"}


def test_where_no_key_has_its_own_name_the_copy_is_the_one_with_fewer_sections() -> None:
    history = History(clients=3).watch("n1")
    for number in (1, 2, 3):
        client, value, at = f"c{number}", f"v{number}", 10 * number
        history.section(client, at + 2, at + 5, asked=at - 2).shows(client, value)
        for key, later in (("lock:k1", -1), ("last", 1)):
            if key != "last" or number < 3:
                history.request(client, "n1", f"SET {key} {value}", at + later, at + later + 0.5)
                history.seen("n1", "set", at + later + 0.7, value, since=at + later - 0.5, key=key)
    assert owners_of(history).copies == {"last"}
