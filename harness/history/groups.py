"""Columns in groups: ordering, and the times of many groups on one time axis.

Groups are placed one after the other on one line of 64-bit numbers, so that a single sort, running maximum or search
replaces a loop over the groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

K = TypeVar("K")
V = TypeVar("V")
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.integer[Any]]
"""Small numbers, stored in as few bits as they need."""


def codes_of(names: pd.Series) -> Codes:
    """The column's names as small numbers; equal names have equal numbers."""
    codes: Codes = names.astype("category").cat.codes.to_numpy()
    return codes


def narrowed(values: Codes, there: Bools | bool = True) -> Codes:
    """These numbers in few bits, but so that sums of four of them fit. Products need not fit. `there`: which of them
    matter."""
    if values.strides == (0,):
        return values
    largest = max(int(values.max(initial=0, where=there)), -int(values.min(initial=0, where=there)))
    return values.astype(np.min_scalar_type(max(-4 * largest - 1, np.iinfo(np.int64).min)), copy=False)


def width_of(codes: Codes) -> int:
    """The largest code plus 1; 1 if there are none."""
    return int(codes.max()) + 1 if len(codes) else 1


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows grouped by a number that they share. Group g has the places `edges[g]` to `edges[g + 1]` in the result of
    `take`; it may be empty."""

    edges: Ints
    order: Ints
    """All rows, ordered by group."""

    @classmethod
    def of(cls, codes: Codes, order_by: Ints | None = None) -> Groups:
        """A group for each code from 0 to the largest. Within a group, rows are in the table's order, or ordered by
        `order_by` (ties in the table's order)."""
        edges = np.append(0, np.cumsum(np.bincount(codes, minlength=1)))
        return cls(edges, np.argsort(codes, kind="stable") if order_by is None else np.lexsort((order_by, codes)))

    @classmethod
    def of_equal(cls, numbers: Codes) -> Groups:
        """A group for each distinct number, in ascending order; none is empty."""
        order = np.argsort(numbers, kind="stable")
        _, first = np.unique(numbers[order], return_index=True)
        return cls(np.append(first, len(numbers)), order)

    def take(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The column, reordered by group."""
        return column.take(self.order)

    def rows(self, places: Ints) -> Ints:
        """The rows at these places."""
        return self.order[places]

    @property
    def begins(self) -> Ints:
        """The first place of each group that is not empty."""
        return self.edges[:-1][np.diff(self.edges) > 0]

    @property
    def number(self) -> Ints:
        """For each place the number of its group."""
        return np.repeat(np.arange(len(self.edges) - 1), np.diff(self.edges))

    def within(self, flags: Bools) -> Bools:
        """`flags` has one flag for each place and its successor. Clears those whose two places are in different groups,
        in place."""
        borders = self.edges[(self.edges > 0) & (self.edges <= len(flags))]
        flags[borders - 1] = False
        return flags

    def spread(self, flags: Bools) -> Bools:
        """For each place whether any flag is set in its group. `flags`: one for each place, or for each place and its
        successor."""
        some = np.zeros(len(self.edges) - 1, np.bool_)
        some[np.searchsorted(self.edges, np.flatnonzero(flags), side="right") - 1] = True
        return np.repeat(some, np.diff(self.edges))

    def keep(self, places: Bools) -> Groups:
        """The same groups with only these places."""
        if places.all():
            return self
        kept = np.flatnonzero(places)
        return Groups(np.searchsorted(kept, self.edges), self.rows(kept))

    def last(self) -> Ints:
        """The last row of each group that is not empty."""
        return self.rows(self.edges[1:][np.diff(self.edges) > 0] - 1)

    def first_times(self, times: Ints, otherwise: int, chosen: Bools | None = None) -> Ints:
        """For each group the smallest time of its chosen rows, `otherwise` if it has none. No group may be empty."""
        if chosen is not None:
            times = np.where(chosen, times, otherwise)
        taken = self.take(times)
        return np.minimum.reduceat(taken, self.edges[:-1]) if len(taken) else taken

    def last_times(self, times: Ints) -> Ints:
        """For each group the largest time of its rows. No group may be empty."""
        taken = self.take(times)
        return np.maximum.reduceat(taken, self.edges[:-1]) if len(taken) else taken


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Rows ordered by group and start, with their starts on one number line on which no two groups touch."""

    starts: Ints
    _moments: Ints | None
    """The distinct starts, if times are replaced by ranks because groups times nanoseconds would overflow."""
    _before: int
    """A time before the earliest start."""
    _last: int
    _shift: Ints
    """For each row the place of its group on the line, minus `_before`."""

    @classmethod
    def of(cls, group: Codes, start: Ints) -> TimeLine:
        """`group`, `start`: columns ordered by group, and by start within each group."""
        first, last = (int(start.min()), int(start.max())) if len(start) else (0, 0)
        moments = None
        if (last - first) * width_of(group) >> 61:
            moments = np.unique(start)
            first, last = 0, len(moments) - 1
        before = first - 1
        shift = group.astype(np.int64)
        shift *= last - before + 1
        shift -= before
        line = cls(start, moments, before, last, shift)
        return cls(line.place(start), moments, before, last, line._shift)

    def place(self, until: Ints) -> Ints:
        """Each row's time on the line. It is at or after a start of its group exactly if the time itself is. A time
        before the earliest start is placed before the group's starts, a time after the latest start after them."""
        if self._moments is not None:
            until = np.searchsorted(self._moments, until, side="right") - 1
        placed: Ints = np.clip(until, self._before, self._last) + self._shift
        return placed


def placed(upper: Codes, lower: Codes) -> Codes:
    """One number for each row, ordered by the first and then by the second, in as few bits as it needs. The first is at
    least -1. Raises OverflowError if 64 bits are too few."""
    if lower.min(initial=0) < 0:
        lower = np.unique(lower, return_inverse=True)[1]  # only damaged logs have such numbers
    width = width_of(lower)
    largest = width * max(width_of(upper), 1)
    if largest > np.iinfo(np.int64).max:
        raise OverflowError(f"{largest:,} is more than 64 bits")
    numbers = upper.astype(np.min_scalar_type(-largest - 1))
    numbers *= numbers.dtype.type(width)
    numbers += lower.astype(numbers.dtype)
    return numbers


def address(*columns: Sequence[Codes]) -> tuple[Ints, ...]:
    """One number for each row of several tables, from the same columns of each: equal for rows that agree in all
    columns.

    `columns`: for each column its values (at least 0) in every table. The numbers are as dense as the values, where 64
    bits are enough for that.
    """
    numbers = [np.zeros(len(table), np.int64) for table in columns[0]]
    for column in columns:
        width = max(width_of(values) for values in column)
        if width * max(width_of(number) for number in numbers) >> 62:
            numbers, column = _ranked(numbers), _ranked(column)
            width = max(width_of(values) for values in column)
        for number, values in zip(numbers, column, strict=True):
            number *= width
            number += values
    return tuple(numbers)


def _ranked(column: Sequence[Codes]) -> list[Ints]:
    """The same column of several tables, with each value replaced by its place among all of them."""
    places = np.unique(np.concatenate(column), return_inverse=True)[1].astype(np.int64)
    return np.split(places, np.cumsum([len(values) for values in column])[:-1])


def look_up(known: Ints, wanted: Ints) -> Ints:
    """For each wanted number its last place in `known`; -1 if it is not there."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known[order], wanted, side="right") - 1
    found: Ints = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (known[found] == wanted), found, -1)


def first_not_larger(values: Ints) -> Ints:
    """For each row the next row whose value is not larger; -1 if there is none."""
    found, waiting = np.full(len(values), -1, np.int64), list[tuple[int, int]]()
    for row, value in enumerate(values.tolist()):
        while waiting and waiting[-1][1] >= value:
            found[waiting.pop()[0]] = row
        waiting.append((row, value))
    return found


def codes_in(names: pd.Index, column: pd.Series) -> Codes:
    """The column's names as positions in `names`; -1 for other names and for missing ones.

    `astype` would not do: pandas considers categoricals equal that differ only in the order of their names, and keeps
    the codes.
    """
    own = column.astype("category").cat
    codes = own.codes.to_numpy()
    if own.categories.equals(names):
        return codes
    places = np.append(names.get_indexer(own.categories), -1).astype(np.int64)
    return places[codes]


def known(column: pd.Series) -> tuple[Bools, Ints]:
    """Which numbers of the column are not missing, and the values, with 0 for missing ones."""
    return ~column.isna().to_numpy(np.bool_), column.to_numpy(np.int64, na_value=0)


def table_of(rows: Iterable[Any], kind: type[Any], *names: str) -> pd.DataFrame:
    """A table of these dataclasses of one kind, a row each. `names`: the columns with few different values. All others
    but numbers stay objects: otherwise pandas would convert texts, and missing ones to NaN."""
    kinds = {column.name: {"int": "int64", "bool": "bool"}.get(str(column.type)) for column in fields(kind)}
    frame = pd.DataFrame(map(attrgetter(*kinds), rows), columns=list(kinds), dtype=object)
    return frame.astype({name: to for name, to in kinds.items() if to} | dict.fromkeys(names, "category"))


def which(frame: pd.DataFrame, *flags: Any, **wanted: Any) -> Bools:
    """By row, whether all of this is so: the `flags`, of which each row has one, and that the columns have the `wanted`
    value, or one of several."""
    chosen = np.ones(len(frame), np.bool_)
    for flag in flags:
        chosen &= np.asarray(flag, np.bool_)
    for name, value in wanted.items():
        is_one_of = isinstance(value, Collection) and not isinstance(value, str)
        chosen &= (frame[name].isin(list(value)) if is_one_of else frame[name] == value).to_numpy(np.bool_)
    return chosen


def where(frame: pd.DataFrame, *flags: Any, **wanted: Any) -> pd.DataFrame:
    """The rows of which that is so."""
    return frame[which(frame, *flags, **wanted)]


def columns_of(frame: pd.DataFrame, *names: str) -> Iterator[Ints]:
    """These columns, as numbers of 64 bits."""
    return (frame[name].to_numpy(np.int64) for name in names)


def rows_of(frame: pd.DataFrame, *names: str) -> Iterator[tuple[Any, ...]]:
    """These columns, row by row, as plain Python values."""
    return zip(*(frame[name].tolist() for name in names), strict=True)


def grouped(pairs: Iterable[tuple[K, V]]) -> defaultdict[K, list[V]]:
    """By the first of each pair, the second ones, in order; an empty list for what is not there."""
    found: defaultdict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


def rows_of_sections(sections: pd.DataFrame, frame: pd.DataFrame, *names: str) -> Iterator[tuple[Any, ...]]:
    """These columns of rows that tell of sections, and first the section's place in `sections`; -1 if it is not
    there."""
    places, of = places_of(sections), rows_of(frame, "client", "life", "section")
    return ((places.get(section, -1), *row) for section, row in zip(of, rows_of(frame, *names), strict=True))


def places_of(sections: pd.DataFrame) -> dict[tuple[Any, ...], int]:
    """By client, life and the section's number: its place in `sections`. In the order of the places."""
    return {section: row for row, section in enumerate(rows_of(sections, "client", "life", "section"))}
