"""A long table, a part at a time: what is computed for each row needs no more memory than one part."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pandas as pd

from harness.history.groups import Codes, ascending, codes_of, placed

PART_ROWS: Final = 1 << 16
"""So many rows of a few columns fit into a processor's cache."""
WORTH_A_PART: Final = 1 << 18
"""Operations. For fewer, pandas takes longer than the work."""


def parts(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The table's rows in order; one empty part if there are none."""
    for at in range(0, max(1, len(table)), PART_ROWS):
        yield table.iloc[at : at + PART_ROWS]


def by_lives(ops: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The operations in parts of whole lives that have enough operations: a part fits into the processor's cache. One
    part if the lives are not one after the other."""
    for begin, end in pairwise(_borders(placed(codes_of(ops["client"]), ops["life"].to_numpy()))):
        yield ops.iloc[begin:end]


def _borders(life: Codes) -> list[int]:
    """Where to cut the operations. `life`: a number for that of each."""
    borders = [0]
    if ascending(life):
        for border in (np.flatnonzero(life[1:] != life[:-1]) + 1).tolist():
            if min(border - borders[-1], len(life) - border) >= WORTH_A_PART:
                borders.append(border)
    return [*borders, len(life)]
