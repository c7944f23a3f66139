"""Durations in classes of 2.3 %: 100 a decade."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

BINS_PER_DECADE: Final = 100


def bin_of(ms: npt.NDArray[np.float64]) -> Ints:
    """The bins of durations: 100 a decade, bin 0 begins at 1 ms."""
    bins: Ints = np.floor(np.log10(np.maximum(ms, 1e-3)) * BINS_PER_DECADE).astype(np.int64)
    return bins


def middle_ms(bins: Ints) -> npt.NDArray[np.float64]:
    """The duration at the centre of each bin."""
    middles: npt.NDArray[np.float64] = 10.0 ** ((bins + 0.5) / BINS_PER_DECADE)
    return middles


def quantile_ms(counts: Mapping[int, int], share: float) -> float | None:
    """The duration that this share of the counted ones does not exceed, or None if there are none."""
    if not counts:
        return None
    bins = np.array(sorted(counts), np.int64)
    reached = np.cumsum([counts[int(b)] for b in bins])
    return float(middle_ms(bins[[int(np.searchsorted(reached, share * reached[-1]))]])[0])


def quantiles(counts: Mapping[int, int]) -> dict[str, float | None]:
    return {"p50": quantile_ms(counts, 0.5), "p99": quantile_ms(counts, 0.99)}
