"""Everything that remains is needed: properties of delta debugging and bisection, against oracles of every kind."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.shrink.ddmin import ddmin, least

ITEMS = tuple(range(20))


@given(st.sets(st.sampled_from(ITEMS), max_size=6))
def test_it_finds_exactly_the_things_that_are_all_needed(needed: set[int]) -> None:
    assert ddmin(ITEMS, lambda kept: needed <= set(kept)) == tuple(sorted(needed))


@given(st.lists(st.sets(st.sampled_from(ITEMS), max_size=4), min_size=1, max_size=4))
def test_with_a_monotone_oracle_the_result_shows_and_no_part_of_it_does(causes: list[set[int]]) -> None:
    def shows(kept: tuple[int, ...]) -> bool:
        return any(cause <= set(kept) for cause in causes)

    left = ddmin(ITEMS, shows)
    assert shows(left)
    assert not any(shows(part) for size in range(len(left)) for part in combinations(left, size))


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_with_any_oracle_the_last_yes_is_the_result_and_no_item_can_be_removed(seed: int, tenths: int) -> None:
    answers: dict[tuple[int, ...], bool] = {ITEMS: True}
    rng = Random(seed)
    last = ITEMS

    def shows(kept: tuple[int, ...]) -> bool:
        nonlocal last
        assert len(kept) < len(last)
        answer = answers.setdefault(kept, rng.random() < tenths / 10)
        last = kept if answer else last
        return answer

    left = ddmin(ITEMS, shows)
    assert left == last
    assert answers[left]
    assert all(not answers[left[:i] + left[i + 1 :]] for i in range(len(left)))


def test_one_cause_among_many_takes_few_tests_and_late_items_are_removed_first() -> None:
    asked: list[tuple[int, ...]] = []

    def shows(kept: tuple[int, ...]) -> bool:
        asked.append(kept)
        return 13 in kept

    assert ddmin(ITEMS, shows) == (13,)
    assert len(asked) <= 12
    assert asked[0] == ITEMS[:10]


def test_the_result_is_empty_if_nothing_is_needed() -> None:
    assert ddmin(ITEMS, lambda _: True) == ()
    assert ddmin((), lambda _: True) == ()


@given(
    low=st.integers(0, 500), width=st.integers(0, 5_000), needed=st.integers(0, 6_000), step=st.sampled_from([1, 50])
)
def test_bisection_ends_on_a_number_that_shows_and_near_the_least_one(
    low: int, width: int, needed: int, step: int
) -> None:
    high = low + width
    needed = min(needed, high)
    asked: list[int] = []

    def shows(number: int) -> bool:
        asked.append(number)
        assert low <= number < high
        return number >= needed

    found = least(low, high, step, shows)
    assert found == high or (found in asked and found >= needed)
    assert found == low or found - max(needed, low) <= max(2 * step, found // 5 + step)
    assert len(asked) <= 16


@pytest.mark.parametrize("low", [100, 120])
def test_there_is_nothing_to_bisect_in_an_empty_range(low: int) -> None:
    def never(_: int) -> bool:
        raise AssertionError("nothing to ask")

    assert least(low, 100, 50, never) == 100
