"""Columns in groups: each vectorized function equals a loop over the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.history.groups import (
    Groups,
    TimeLine,
    address,
    first_not_larger,
    look_up,
    narrowed,
    placed,
    where,
)

quickly = settings(max_examples=150)
few = st.integers(0, 6)
at_a_border = st.sampled_from([2**bits + off for bits in (5, 6, 7, 8, 15, 16, 31, 32) for off in (-2, -1, 0, 1)])


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@quickly
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200), max_size=6), st.integers(0, 6))
def test_narrowed_numbers_are_the_same_and_may_be_added(values: list[int], missing: int) -> None:
    there = np.arange(len(values)) >= missing
    narrow = narrowed(ints(values), there)
    assert narrow[there].tolist() == values[missing:]
    if all(abs(value) < 2**61 for value in values[missing:]):
        assert (narrow[there] + narrow[there]).tolist() == [2 * value for value in values[missing:]]
    if values and all(abs(value) < 32 for value in values[missing:]):
        assert narrow.dtype == np.int8


@quickly
@given(st.lists(st.tuples(st.integers(-1, 300), st.integers(-200, 2**20) | at_a_border), max_size=6))
@example([(0, 127)])
@example([(0, 2**63 - 2)])
@example([(0, 2**63 - 1), (1, -(2**63)), (1, -(2**62)), (-1, 5)])
def test_what_is_placed_is_ordered_as_its_pairs_are(pairs: list[tuple[int, int]]) -> None:
    upper, lower = (narrowed(ints([pair[place] for pair in pairs])) for place in (0, 1))
    numbers = placed(upper, lower).tolist()
    assert len(set(numbers)) == len(set(pairs))
    assert [pairs[row] for row in sorted(range(len(pairs)), key=numbers.__getitem__)] == sorted(pairs)


def assert_grouped(groups: Groups, expected: list[list[int]], flags: list[bool], times: list[int]) -> None:
    """`expected`: for each group its rows. `flags`, `times`: at least one per row."""
    order = [row for rows in expected for row in rows]
    number = [place for place, rows in enumerate(expected) for _ in rows]
    assert groups.order.tolist() == groups.rows(np.arange(len(order))).tolist() == order
    assert np.diff(groups.edges, prepend=0).tolist() == [0, *map(len, expected)]
    assert groups.take(ints(times)[: 1 + max(order, default=-1)]).tolist() == [times[row] for row in order]
    assert groups.number.tolist() == number
    assert groups.begins.tolist() == [number.index(place) for place, rows in enumerate(expected) if rows]
    assert groups.last().tolist() == [rows[-1] for rows in expected if rows]
    pairs = [flag and one == other for flag, one, other in zip(flags, number, number[1:], strict=False)]
    assert groups.within(np.array(flags[: len(pairs)], np.bool_)).tolist() == pairs
    some = {place for place, flag in zip(number, flags, strict=False) if flag}
    assert groups.spread(np.array(flags[: len(order)], np.bool_)).tolist() == [place in some for place in number]


rows_of_groups = st.lists(st.tuples(few, few, st.booleans(), st.booleans(), few), max_size=8)


@quickly
@given(rows_of_groups, st.sampled_from(["any order", "by code", "by time"]), st.booleans())
def test_groups_are_lists_of_rows(rows: list[tuple[int, int, bool, bool, int]], already: str, everything: bool) -> None:
    rows = (
        sorted(rows)
        if already == "by code"
        else sorted(rows, key=lambda row: row[1])
        if already != "any order"
        else rows
    )
    codes, order_by, kept, flags, times = ([row[place] for row in rows] for place in range(5))
    kept = [everything or keep for keep in kept]
    of_code = [[row for row, code in enumerate(codes) if code == one] for one in range(1 + max(codes, default=0))]
    by_time = [sorted(some, key=order_by.__getitem__) for some in of_code]
    of_equal = [some for some in of_code if some]
    for groups, expected in (
        (Groups.of(ints(codes)), of_code),
        (Groups.of(ints(codes), ints(order_by)), by_time),
        (Groups.of_equal(ints(codes)), of_equal),
    ):
        assert_grouped(groups, expected, flags, times)
        left = groups.keep(groups.take(np.array(kept, np.bool_)))
        assert_grouped(left, [[row for row in some if kept[row]] for some in expected], flags, times)
    earliest = Groups.of_equal(ints(codes)).first_times
    assert earliest(ints(times), 9).tolist() == [min(times[row] for row in some) for some in of_equal]
    firsts = [min((times[row] for row in some if kept[row]), default=9) for some in of_equal]
    assert earliest(ints(times), 9, np.array(kept, np.bool_)).tolist() == firsts


@quickly
@given(
    st.lists(st.tuples(st.integers(0, 2), few | st.just(2**62)), max_size=8).map(sorted),
    st.lists(st.integers(-2, 8) | st.sampled_from([2**62 - 1, 2**62, 2**62 + 1]), min_size=8, max_size=8),
)
def test_a_time_on_the_line_is_at_or_after_exactly_the_right_starts(
    rows: list[tuple[int, int]], untils: list[int]
) -> None:
    """With and without starts so far apart that only their ranks fit."""
    group, start = ints([g for g, _ in rows]), ints([s for _, s in rows])
    line = TimeLine.of(group, start)
    placed = line.place(ints(untils[: len(rows)]))
    for (one, _), until, at in zip(rows, untils, placed.tolist(), strict=False):
        for (other, since), begins in zip(rows, line.starts.tolist(), strict=True):
            assert (at >= begins) == ((one, until) >= (other, since) if one == other else one > other)


numbers = st.lists(few | st.integers(0, 20_000) | st.just(2**60), max_size=8)


@quickly
@given(numbers, st.lists(st.integers(-1, 7) | st.integers(0, 20_000) | st.just(2**60), max_size=8))
def test_a_number_is_looked_up_at_its_last_place(known: list[int], wanted: list[int]) -> None:
    wanted = [*wanted, *known[1:3], max(known, default=0) + 1]
    places = {number: place for place, number in enumerate(known)}
    assert look_up(ints(known), ints(wanted)).tolist() == [places.get(number, -1) for number in wanted]


@quickly
@given(st.lists(st.tuples(few, few, few), max_size=8), st.lists(st.tuples(few, few, few), max_size=8))
def test_rows_of_two_tables_have_equal_addresses_if_all_columns_agree(
    one: list[tuple[int, ...]], other: list[tuple[int, ...]]
) -> None:
    columns = [[ints([row[place] for row in table]) for table in (one, other)] for place in range(3)]
    ours, theirs = address(*columns)
    numbers = [*ours.tolist(), *theirs.tolist()]
    assert len(numbers) == len(one) + len(other)
    for place, number in enumerate(numbers):
        assert [number == n for n in numbers] == [(one + other)[place] == row for row in one + other]


@quickly
@given(st.lists(few, max_size=9) | st.lists(few, min_size=15, max_size=18))
def test_the_first_later_value_that_is_not_larger_is_found(values: list[int]) -> None:
    firsts = {
        row: next(later for later in range(row + 1, len(values)) if values[later] <= value)
        for row, value in enumerate(values)
        if value >= min(values[row + 1 :], default=value + 1)
    }
    assert first_not_larger(ints(values)).tolist() == [firsts.get(row, -1) for row in range(len(values))]


def test_rows_are_chosen_by_the_values_of_their_columns() -> None:
    names = pd.Categorical(["a", None, "b", "c", "a"])
    table = pd.DataFrame({"name": names, "is_there": [True, True, False, True, False]})

    def chosen(*flags: object, **wanted: object) -> list[int]:
        return where(table, *flags, **wanted).index.tolist()

    assert chosen(name="a") == [0, 4]
    assert chosen(name=("a", "c"), is_there=True) == [0, 3]
    assert chosen(table["name"].notna(), is_there=True) == [0, 3]
    assert chosen(name="d") == chosen(name=()) == []
    assert chosen() == [0, 1, 2, 3, 4]
