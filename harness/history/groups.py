"""Columns in groups: ordering, and times of many groups as one line of numbers.

Everything here costs n log n at most, and mostly n: small codes are ordered by counting (numpy does, 16 bits at a
time), and groups are laid one after the other on one line of 64-bit numbers, so that one sort, one running maximum or
one search does for all of them what a loop would do for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.integer[Any]]
"""Small numbers, in as few bits as they need."""

_HALF_BITS = 16


def codes_of(names: pd.Series) -> Codes:
    """The column's names as small numbers, equal ones for equal names."""
    codes: Codes = names.astype("category").cat.codes.to_numpy()
    return codes


def stable_order(codes: Codes) -> Ints:
    """The order that brings equal codes (of at least 0) together and keeps the order within each."""
    if not len(codes):
        return np.zeros(0, np.int64)
    largest = int(codes.max())
    if largest >> (2 * _HALF_BITS):
        return np.argsort(codes, kind="stable")
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    if largest >> _HALF_BITS:
        order = order[np.argsort((codes[order] >> _HALF_BITS).astype(np.uint16), kind="stable")]
    return order


def width_of(codes: Codes) -> int:
    """How many codes there are from 0 to the largest of these; 1 if there are none."""
    return int(codes.max()) + 1 if len(codes) else 1


def ascending(values: Codes) -> bool:
    return bool((values[1:] >= values[:-1]).all())


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows brought together by a number that they share. Group g has the places `edges[g]` to `edges[g + 1]` in what
    `take` returns; it may be empty."""

    edges: Ints
    _row: Ints | None
    """Which row is at which place; None if every row is at its own."""

    @classmethod
    def of(cls, codes: Codes, order_by: Ints | None = None) -> Groups:
        """A group for each code from 0 to the largest; within it the rows in the table's order, or in that of
        `order_by` (rows that are equal in it in the table's)."""
        edges = np.append(0, np.cumsum(np.bincount(codes, minlength=1)))
        by_value = None if order_by is None or ascending(order_by) else np.argsort(order_by, kind="stable")
        if by_value is not None:
            return cls(edges, by_value[stable_order(codes[by_value])])
        return cls(edges, None if ascending(codes) else stable_order(codes))

    @classmethod
    def of_equal(cls, numbers: Ints) -> Groups:
        """A group for each different number, in their order; none is empty."""
        row = None if ascending(numbers) else np.argsort(numbers, kind="stable")
        taken = numbers if row is None else numbers[row]
        return cls(np.append(np.flatnonzero(_changes(taken)), len(numbers)), row)

    def take(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The column with its groups together."""
        return column if self._row is None else column.take(self._row)

    def rows(self, places: Ints) -> Ints:
        """The rows at these places."""
        return places if self._row is None else self._row[places]

    @property
    def order(self) -> Ints:
        """All rows, with the groups together."""
        return np.arange(self.edges[-1]) if self._row is None else self._row

    @property
    def begins(self) -> Ints:
        """The first place of each group that has one."""
        return self.edges[:-1][np.diff(self.edges) > 0]

    @property
    def number(self) -> Ints:
        """At each place the number of its group."""
        return np.repeat(np.arange(len(self.edges) - 1), np.diff(self.edges))

    def within(self, flags: Bools) -> Bools:
        """`flags` says something of each place and the next one; here only of two in one group. Changes `flags`."""
        borders = self.edges[(self.edges > 0) & (self.edges <= len(flags))]
        flags[borders - 1] = False
        return flags

    def spread(self, flags: Bools) -> Bools:
        """`flags`: of each place, or of each and the next one. Whether there is one anywhere in a place's group."""
        some = np.zeros(len(self.edges) - 1, np.bool_)
        some[np.searchsorted(self.edges, np.flatnonzero(flags), side="right") - 1] = True
        return np.repeat(some, np.diff(self.edges))

    def keep(self, places: Bools) -> Groups:
        """The same with only these places."""
        if places.all():
            return self
        kept = np.flatnonzero(places)
        return Groups(np.searchsorted(kept, self.edges), self.rows(kept))

    def last(self) -> Ints:
        """The last row of each group that has one."""
        return self.rows(self.edges[1:][np.diff(self.edges) > 0] - 1)

    def first_times(self, times: Ints, otherwise: int, chosen: Bools | None = None) -> Ints:
        """For each group the smallest of the chosen rows' times. No group may be empty."""
        if chosen is not None:
            times = np.where(chosen, times, otherwise)
        taken = self.take(times)
        return np.minimum.reduceat(taken, self.edges[:-1]) if len(taken) else taken


def _changes(values: Ints) -> Bools:
    """Which of the values differ from the one before; the first one does."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Rows ordered by group and start, with their starts on one line on which no two groups touch."""

    starts: Ints
    _moments: Ints | None
    """The different starts, if times are counted by their ranks: where groups times nanoseconds would overflow."""
    _before: int
    """A time before the first start of all."""
    _last: int
    _shift: Ints
    """For each row the place of its group on the line, less `_before`."""

    @classmethod
    def of(cls, group: Ints, start: Ints) -> TimeLine:
        """`group`, `start`: columns ordered by group, and by start within each."""
        first, last = (int(start.min()), int(start.max())) if len(start) else (0, 0)
        moments = None
        if (last - first) * width_of(group) >> 61:
            moments = np.unique(start)
            first, last = 0, len(moments) - 1
        before = first - 1
        line = cls(start, moments, before, last, group * (last - before + 1) - before)
        return cls(line.place(start), moments, before, last, line._shift)

    def place(self, until: Ints) -> Ints:
        """Each row's time on the line: at or after a start of its group if and only if it really is. Times before the
        first start of all are before those of the group, times after the last one behind them."""
        if self._moments is not None:
            until = np.searchsorted(self._moments, until, side="right") - 1
        placed: Ints = np.clip(until, self._before, self._last)
        placed += self._shift
        return placed


def address(*columns: Sequence[Codes]) -> tuple[Ints, ...]:
    """One number for each row of several tables, from the same columns of each: equal for rows that agree in all.

    `columns`: for each column its values (0 or more) in every table. The numbers are as dense as the values are.
    """
    numbers = [np.zeros(len(table), np.int64) for table in columns[0]]
    for column in columns:
        width = max(width_of(values) for values in column)
        numbers = [number * width + values for number, values in zip(numbers, column, strict=True)]
    return tuple(numbers)


def look_up(known: Ints, wanted: Ints) -> Ints:
    """For each wanted number its place in `known`, the last one if it is there more than once; -1 if it is not."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    size = width_of(known)
    if size <= 4 * (len(known) + len(wanted)) + 1024:
        places = np.full(size, -1, np.min_scalar_type(-len(known)))
        places[known] = np.arange(len(known), dtype=places.dtype)
        inside = (wanted >= 0) & (wanted < size)
        if inside.all():
            return places[wanted].astype(np.int64)
        return np.where(inside, places[np.where(inside, wanted, 0)], -1).astype(np.int64)
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known[order], wanted, side="right") - 1
    found: Ints = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (known[found] == wanted), found, -1)


def all_different(numbers: Ints) -> bool:
    return bool((look_up(numbers, numbers) == np.arange(len(numbers))).all())


def first_not_larger(values: Ints, rows: Ints) -> Ints:
    """For each of the rows the first one after it whose value is not larger. There must be one.

    A tree of smallest values, climbed and descended by all rows at once.
    """
    levels, level = list[Ints](), values
    wanted, at = values[rows], rows + 1
    found_on = np.full(len(rows), -1, np.int64)
    seeking = np.arange(len(rows))
    for height in range(len(values).bit_length()):
        # A node on the left is seen with its neighbour, one level up; one on the right only here.
        here = seeking[at[seeking] % 2 == 1]
        hit = level[at[here]] <= wanted[here]
        found_on[here[hit]] = height
        at[here[~hit]] += 1
        seeking = seeking[found_on[seeking] < 0]
        at[seeking] //= 2
        levels.append(level)
        if len(level) % 2:
            level = np.append(level, level[-1])
        level = np.minimum(level[0::2], level[1::2])
    for height in reversed(range(1, len(levels))):
        down = np.flatnonzero(found_on >= height)
        left = 2 * at[down]
        at[down] = np.where(levels[height - 1][left] <= wanted[down], left, left + 1)
    return at


def codes_in(names: pd.Index, column: pd.Series) -> Codes:
    """The column's names as positions in `names`; -1 for others and for missing ones.

    Not by `astype`: pandas takes categoricals that differ only in the order of their names for equal, and keeps the
    codes.
    """
    own = column.astype("category").cat
    codes = own.codes.to_numpy()
    if own.categories.equals(names):
        return codes
    places = np.append(names.get_indexer(own.categories), -1).astype(np.int64)
    return places[codes]


def known(column: pd.Series) -> tuple[Bools, Ints]:
    """Of a column of numbers that may be missing: which ones are there, and the values, 0 where there is none."""
    return ~column.isna().to_numpy(np.bool_), column.to_numpy(np.int64, na_value=0)
