"""All pairs of spans of two columns that overlap, group by group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Ints


@dataclass(frozen=True, slots=True)
class Spans:
    group: Ints
    from_ns: Ints
    to_ns: Ints


def overlapping(some: Spans, others: Spans) -> tuple[Ints, Ints]:
    """All pairs of the same group whose times overlap. Others without an end are looked at one by one: in between the
    running maximum of the ends says where to begin."""
    left: list[Ints] = []
    right: list[Ints] = []
    order = np.lexsort((others.from_ns, others.group))
    in_order = others.group[order]
    of_some = np.argsort(some.group, kind="stable")
    groups, first = np.unique(some.group[of_some], return_index=True)
    for group, rows in zip(groups, np.split(of_some, first[1:])[: len(groups)], strict=True):
        low, high = (int(np.searchsorted(in_order, group, side)) for side in ("left", "right"))
        own = order[low:high]
        is_open = others.to_ns[own] >= FOREVER_NS
        closed = own[~is_open]
        for part, ends in (
            (closed, np.maximum.accumulate(others.to_ns[closed])),
            (own[is_open], np.full(int(is_open.sum()), FOREVER_NS)),
        ):
            begin = np.searchsorted(ends, some.from_ns[rows], "left")
            end = np.searchsorted(others.from_ns[part], some.to_ns[rows], "right")
            number = np.maximum(end - begin, 0)
            where = np.repeat(begin - np.cumsum(number) + number, number) + np.arange(int(number.sum()))
            a, b = np.repeat(rows, number), part[where]
            meets = others.to_ns[b] >= some.from_ns[a]
            left.append(a[meets])
            right.append(b[meets])
    if not left:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(left), np.concatenate(right)
