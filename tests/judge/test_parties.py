"""Which sections may be inside together: those of one party, as the readers of a key are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checkers import free_waits, late_requests, ownership, partial_starvation
from harness.history.capacity import count_crowding
from harness.history.overlaps import count_overlaps, overlapped_keys, overlapping_pairs
from tests.judge.histories import History
from tests.judge.test_exclusion import blames
from tests.judge.test_overlap_counts import Row, frame, tables


def reading(client: str, start: float, end: float | None, **more: object) -> History:
    return History(clients=3).section(client, start, end, shared=True, **more)


def test_readers_may_be_inside_together() -> None:
    assert blames(reading("c1", 0, 50).section("c2", 10, 60, shared=True).section("c3", 20, 40, shared=True)) == {}


def test_a_writer_may_be_inside_with_no_reader_that_is_within_its_lease() -> None:
    assert blames(reading("c1", 0, 50).section("c2", 20, 60)) == {"lock": 1}
    assert blames(History().section("c2", 0, 60).section("c1", 20, 50, shared=True)) == {"lock": 1}
    assert blames(reading("c1", 0, 50).section("c3", 10, 60, shared=True).section("c2", 20, 60)) == {"lock": 2}


def test_two_writers_may_not_be_inside_together() -> None:
    assert blames(reading("c1", 0, 10).section("c2", 20, 60).section("c3", 30, 50)) == {"lock": 1}


def test_a_reader_that_outlived_its_lease_is_to_blame_for_the_writer_beside_it() -> None:
    assert blames(reading("c1", 0, 200, deadline=100).section("c2", 120, 140)) == {"client": 1}


def test_a_writer_may_come_when_the_last_reader_has_left() -> None:
    assert blames(reading("c1", 0, 50).section("c2", 10, 60, shared=True).section("c3", 61, 70)) == {}


def test_readers_of_different_keys_keep_no_writer_of_another_out() -> None:
    assert blames(reading("c1", 0, 50, key="k1").section("c2", 20, 60, key="k2")) == {}


def test_the_lock_is_exclusive_unless_a_client_came_as_a_reader() -> None:
    assert History().section("c1", 0, 50).recorded().is_exclusive
    assert not History(workload="semaphore", permits=2).section("c1", 0, 50).recorded().is_exclusive
    assert not reading("c1", 0, 50).recorded().is_exclusive
    refused = History().section("c1", 0, 50).op("c2", "acquire", "fail", 1, 10, 20, shared=True)
    assert not refused.recorded().is_exclusive


@pytest.mark.parametrize("checker", [free_waits, late_requests, partial_starvation], ids=lambda one: one.__name__)
def test_what_only_an_exclusive_lock_promises_is_not_asked_of_readers(checker: object) -> None:
    assert checker.check(reading("c1", 0, 50).watch("n1").recorded()).figures is None  # type: ignore[attr-defined]


def joined(**come: bool) -> History:
    """c2 has set the key and is inside; then an acquire of c1 gives that key more time."""
    history = History(ttl_ms=400).watch("n1").section("c2", 500, 900, asked=480, **come)
    history.request("c2", "n1", "SET k1 b PX 400", 490, 491).seen("n1", "set", 492, "b", since=485, ttl=400)
    history.section("c1", 615, 800, asked=595, **come).request("c1", "n1", "PEXPIRE k1 400", 600, 601, reply="1")
    return history.seen("n1", "prolonged", 602, "b", since=599, ttl=400)


@pytest.mark.parametrize("come", [{}, {"shared": True}], ids=["writers", "readers"])
def test_only_a_reader_may_hold_and_prolong_a_key_that_another_client_set(come: dict[str, bool]) -> None:
    found = [finding.kind for finding in ownership.check(joined(**come).recorded()).findings]
    assert found == ([] if come else ["prolonged-another-clients-key"])


def test_what_a_writer_set_is_known_however_many_readers_there_are() -> None:
    history = joined(shared=True).section("c3", 1_000, 1_100, asked=980)
    history.request("c3", "n1", "SET k1 w PX 400", 990, 991).seen("n1", "set", 992, "w", since=985, ttl=400)
    owners = history.recorded().owners
    assert owners is not None
    assert list(owners.values.values()) == [{"w"}]


@settings(max_examples=200)
@given(tables, st.lists(st.booleans(), min_size=40, max_size=40))
def test_readers_are_judged_like_one_client_with_many_sections(table: list[Row], flags: list[bool]) -> None:
    shared = flags[: len(table)]
    readers = frame(table).assign(shared=np.array(shared, np.int8))
    one = frame([("readers", 0, *row[2:]) if is_shared else row for row, is_shared in zip(table, shared, strict=True)])
    assert count_overlaps(readers) == count_overlaps(one)
    assert overlapped_keys(readers) == overlapped_keys(one)
    listed, expected = overlapping_pairs(readers), overlapping_pairs(one)
    assert list(zip(listed.earlier, listed.later, listed.blame, strict=True)) == list(
        zip(expected.earlier, expected.later, expected.blame, strict=True)
    )
    crowding, most = count_crowding(readers, 1), count_crowding(one, 1)
    assert (crowding.most, crowding.longest_ns, crowding.excess.keys()) == (
        most.most,
        most.longest_ns,
        most.excess.keys(),
    )
