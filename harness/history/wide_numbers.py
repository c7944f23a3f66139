"""Numbers that leave no room in 64 bits for calculating with them: others in their place, in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Whole = npt.NDArray[np.integer[Any]]


def squeezed(values: Whole) -> Ints:
    """The same numbers closer together, none of them more than twice their count from 0: their order stays, 0 stays 0,
    and exactly the ones that were one apart are one apart."""
    distinct, which = np.unique(np.append(values, 0), return_inverse=True)
    steps = np.where(distinct[1:] - 1 == distinct[:-1], 1, 2)
    place = np.append(0, np.cumsum(steps))
    squeezed: Ints = place[which[:-1]] - place[which[-1]]
    return squeezed


def fit_in_line(values: Whole, groups: int) -> bool:
    """Whether so many groups of these values, one after the other, fit into 64 bits."""
    return (int(values.max(initial=0)) - int(values.min(initial=0)) + 1) * groups < 2**62


def in_order(column: Sequence[Whole]) -> list[Ints]:
    """The same column of several tables, with each value replaced by its place among all of them."""
    places = np.unique(np.concatenate(column), return_inverse=True)[1].astype(np.int64)
    return np.split(places, np.cumsum([len(values) for values in column])[:-1])
