"""How far windows reach, compared with looking at every pair of rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history.interval_reach import last_reached, open_windows

Row = tuple[int, int, int]
"""Group, start and end of a window."""

rows = st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(-2, 12)).map(lambda r: (r[0], r[1], r[1] + r[2]))
far = st.sampled_from([0, 2**61]).flatmap(lambda base: rows.map(lambda r: (r[0], r[1] + base, r[2] + base)))
tables = st.lists(rows | far, max_size=12).map(lambda found: sorted(found, key=lambda row: row[:2]))


@settings(max_examples=300)
@given(tables)
def test_windows_reach_the_last_row_of_their_group_that_starts_in_them(table: list[Row]) -> None:
    group, start, until = (np.array(column, np.int64) for column in zip(*table, strict=True)) if table else [_NONE] * 3
    reach = last_reached(group, start, until)
    assert reach.tolist() == [
        max([i, *(j for j, other in enumerate(table) if j > i and other[0] == row[0] and other[1] <= row[2])])
        for i, row in enumerate(table)
    ]
    is_open = until >= start
    assert open_windows(reach, is_open).tolist() == [
        sum(table[i][0] == row[0] and table[i][1] <= table[i][2] and table[i][2] >= row[1] for i in range(j))
        if row[2] >= row[1]
        else 0
        for j, row in enumerate(table)
    ]


_NONE = np.zeros(0, np.int64)
