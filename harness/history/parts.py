"""A long table, a part at a time: what is computed for each row needs no more memory than one part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pandas as pd

PART_ROWS: Final = 1 << 16
"""So many rows of a few columns fit into a processor's cache."""


def parts(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The table's rows in order; one empty part if there are none."""
    for at in range(0, max(1, len(table)), PART_ROWS):
        yield table.iloc[at : at + PART_ROWS]
