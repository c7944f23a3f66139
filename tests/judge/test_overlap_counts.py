"""The overlaps are those that comparing every two sections finds, however many pairs are looked at together."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history import overlaps
from harness.history.groups import TimeLine
from harness.history.overlaps import (
    BLAMES,
    NO_OVERLAP,
    OverlapBlame,
    PairsOfBlame,
    blames_between,
    count_overlaps,
    overlapped_keys,
    overlapping_pairs,
    touching,
)

Row = tuple[str, int, str, int, int, int, int]
COLUMNS = ["client", "life", "key", "start_ns", "end_ns", "deadline_min_ns", "deadline_max_ns"]


def frame(rows: list[Row]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype({name: np.int64 for name in COLUMNS if name not in ("client", "key")})


def by_hand(rows: list[Row]) -> dict[str, list[tuple[int, int, int]]]:
    """For each blame its pairs: the start of the overlap, its length, and the number of the row that started later."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for i, (client, life, key, start, end, low, high) in enumerate(rows):
        for other in rows[:i]:
            began, ended = max(start, other[3]), min(end, other[4])
            if key != other[2] or (client, life) == other[:2] or began > ended:
                continue
            if began <= min(ended, low, other[5]):
                blame, ended = "lock", min(ended, low, other[5])
            elif began <= min(ended, high, other[6]):
                blame, ended = "undecided", min(ended, high, other[6])
            else:
                blame = "client"
            found.setdefault(blame, []).append((began, ended - began, i))
    return found


moments = st.integers(0, 12)
rows = st.tuples(
    st.sampled_from(["c1", "c2", "c3"]),
    st.integers(0, 2),
    st.sampled_from(["k1", "k2"]),
    moments,
    st.integers(0, 9),
    st.integers(-3, 9),
    st.integers(0, 5),
)
tables = st.lists(rows, max_size=14).map(
    lambda found: [(c, life, k, s, s + length, s + d, s + d + more) for c, life, k, s, length, d, more in found]
)


def compare(
    table: list[Row], kinds: dict[OverlapBlame, PairsOfBlame], expected: dict[str, list[tuple[int, int, int]]]
) -> None:
    assert {blame: kind.count for blame, kind in kinds.items()} == {blame: len(p) for blame, p in expected.items()}
    for blame, kind in kinds.items():
        pairs = expected[blame]
        assert kind.longest_ns == max(length for _, length, _ in pairs)
        began = [max(table[i][3], table[j][3]) for i, j in kind.first]
        assert began == sorted(at for at, _, _ in pairs)[:3]
        for i, j in (*kind.first, kind.longest):
            assert table[i][3] <= table[j][3]
            assert blame in by_hand([table[i], table[j]])
        i, j = kind.longest
        ((_, length, _),) = by_hand([table[i], table[j]])[blame]
        assert length == kind.longest_ns


@settings(max_examples=150)
@given(tables, st.sampled_from([3, 1_000_000]))
def test_counts_firsts_and_longest_equal_those_of_comparing_every_pair(table: list[Row], at_once: int) -> None:
    expected = by_hand(table)
    sections = frame(table)
    names = {row[2] for row in table}
    with patch.object(overlaps, "_CHUNK", at_once):
        for counted in (sections, sections.assign(lapsed_from_ns=0, lapsed_to_ns=0)):
            compare(table, count_overlaps(counted), expected)
        assert overlapped_keys(sections) == {k for k in names if by_hand([row for row in table if row[2] == k])}


@settings(max_examples=100)
@given(tables)
def test_listing_finds_the_same_pairs_as_comparing_every_pair(table: list[Row]) -> None:
    with patch.object(overlaps, "_CHUNK", 3):
        pairs = overlapping_pairs(frame(table))
    listed = [BLAMES[place] for place in pairs.blame]
    assert sorted(listed) == sorted(blame for blame, found in by_hand(table).items() for _ in found)
    began = [table[row][3] for row in pairs.later]
    assert began == sorted(began)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), max_size=8))
def test_pairs_are_listed_a_bounded_number_at_a_time(counts: list[int]) -> None:
    """However many there are: the pairs of one row, plus fewer than the limit."""
    with patch.object(overlaps, "_CHUNK", 3):
        chunks = overlaps._chunks(np.array(counts, np.int64))
    assert [row for first, last in chunks for row in range(first, last)] == list(range(len(counts)))
    assert all(sum(counts[first + 1 : last]) < 3 for first, last in chunks)


def crowd(count: int) -> list[Row]:
    """One row after the other, all of them inside until the end."""
    return [(f"c{n}", 1, "k1", n, 10 * count, 20 * count, 20 * count) for n in range(count)]


def test_if_everything_overlaps_the_pairs_are_counted_without_listing_them() -> None:
    """More of them than are ever listed."""
    count = 3_500
    (kind,) = count_overlaps(frame(crowd(count))).values()
    assert kind.count == count * (count - 1) // 2 > overlaps.MOST_PAIRS
    assert kind.first == ((0, 1), (0, 2), (1, 2))
    assert kind.longest_ns == 10 * count - 1
    assert kind.longest == (0, 1)


def test_an_overlap_within_a_lapse_is_the_clients_fault() -> None:
    sections = frame([(f"c{n}", 1, "k1", 5 + n, 9, 2, 20) for n in range(3)])
    assert count_overlaps(sections).keys() == {"undecided"}
    assert count_overlaps(sections.assign(lapsed_from_ns=2, lapsed_to_ns=15)).keys() == {"client"}


def test_a_list_ends_at_its_limit() -> None:
    assert len(overlapping_pairs(frame(crowd(100)), most=50).later) == 50


@pytest.mark.parametrize("table", [[], [("c1", 1, "k1", 1, 2, 3, 3)]])
def test_no_pairs_without_two_sections(table: list[Row]) -> None:
    assert count_overlaps(frame(table)) == {}
    assert len(overlapping_pairs(frame(table)).later) == 0


def test_times_too_far_apart_for_one_line_are_distinguished_by_rank() -> None:
    key, start = np.array([0, 0, 1, 1]), np.array([0, 2**61, 5, 2**61 + 1])
    line = TimeLine.of(key, start)
    assert (np.diff(line.starts) > 0).all()
    reach = np.searchsorted(line.starts, line.place(np.array([2**61 - 1, 2**61, 2**61, 2**61 + 1])), side="right")
    assert reach.tolist() == [1, 2, 3, 4]


def blame_between(first: tuple[int, int, int], second: tuple[int, int, int]) -> str | None:
    """The blame of two sections, each given by start, end and deadline."""
    table = frame([(f"c{n}", 1, "k1", *times, times[-1]) for n, times in enumerate((first, second))])
    (forth,), (back,) = (blames_between(table, np.array([a]), np.array([b])) for a, b in ((0, 1), (1, 0)))
    assert forth == back
    return None if forth == NO_OVERLAP else BLAMES[forth]


def test_the_blame_between_two_given_sections_counts_shared_end_points() -> None:
    assert blame_between((0, 10, 20), (10, 15, 20)) == "lock"
    assert blame_between((0, 10, 20), (11, 15, 20)) is None
    assert blame_between((0, 10, 4), (5, 15, 20)) == "client"
    assert blame_between((5, 5, 9), (5, 15, 20)) == "lock"


def test_a_missing_section_and_the_section_itself_overlap_nothing() -> None:
    table = frame([("c1", 1, "k1", 0, 10, 20, 20)])
    assert blames_between(table, np.array([0, -1, 0]), np.array([0, 0, -1])).tolist() == [NO_OVERLAP] * 3


def test_a_window_of_one_moment_is_not_empty() -> None:
    """c3's lease ends in the moment in which c3 gets in. In that moment c1's lease lasts: their overlap is the
    lock's, and as short as that. The longest that is blamed on clients is the one of c4 and c5."""
    table: list[Row] = [
        ("c1", 1, "k1", 0, 100, 500, 500),
        ("c2", 1, "k1", 5, 20, 6, 6),
        ("c3", 1, "k1", 10, 100, 10, 10),
        ("c4", 1, "k1", 200, 250, 210, 210),
        ("c5", 1, "k1", 220, 260, 500, 500),
    ]
    kinds = count_overlaps(frame(table))
    assert (kinds["lock"].count, kinds["lock"].longest_ns, kinds["client"].longest_ns) == (2, 1, 30)
    del table[1]
    assert count_overlaps(frame(table))["lock"].longest_ns == 0


@settings(max_examples=100)
@given(tables)
def test_only_rows_that_touch_another_of_their_key_are_looked_at(table: list[Row]) -> None:
    def touch(one: Row, other: Row) -> bool:
        return one[2] == other[2] and one[3] <= other[4] and other[3] <= one[4]

    touches = [i for i, one in enumerate(table) if any(touch(one, other) for j, other in enumerate(table) if i != j)]
    assert sorted(touching(frame(table)).tolist()) == touches
