"""Gaps in a client's lease during its section: the lease had expired under every reading before the extension that
followed can have been computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Ints


class Lapses(NamedTuple):
    """`rows`: the late extensions, as positions in the leases. `from_ns`: the latest end of the lease before; `to_ns`:
    the earliest time at which the extension can have been computed."""

    rows: Ints
    from_ns: Ints
    to_ns: Ints

    def longest_of(self, section: Ints, wanted: Ints) -> tuple[Ints, Ints]:
        """The longest lapse of each wanted section: from when, to when; 0 to 0 without any. `section`: that of each
        lease."""
        order = np.lexsort((self.to_ns - self.from_ns, section[self.rows]))
        own = section[self.rows][order]
        last = np.searchsorted(own, wanted, side="right") - 1
        there = (last >= 0) & (own[last] == wanted)
        return np.where(there, self.from_ns[order][last], 0), np.where(there, self.to_ns[order][last], 0)


def find_lapses(leases: pd.DataFrame, section: Ints) -> Lapses:
    """The lapses between these leases (`harness.history.sections.derive_leases`). `section`: a number for the section
    of each."""
    if not (leases["f"] == "extend").any():
        return Lapses(*np.zeros((3, 0), np.int64))
    complete, earliest, latest, computed = (
        leases[name].to_numpy(np.int64)
        for name in ("complete_ns", "deadline_min_ns", "deadline_max_ns", "computed_min_ns")
    )
    told, at_return = leases["validity_ms"].to_numpy(np.float64) * 1e6, leases["told_at_return"].to_numpy(np.bool_)
    order = np.lexsort((complete, section))
    before, this = order[:-1], order[1:]
    # What follows a lease in its section is an extension. One that is open-ended may have no gap before it.
    same = (section[before] == section[this]) & (np.isfinite(told[this]) | (latest[this] < FOREVER_NS))
    before, this = before[same], this[same]
    tells_length = np.isfinite(told[this]) & ~at_return[this]
    length = np.ceil(np.where(tells_length, told[this], 0)).astype(np.int64)
    from_ns, to_ns = latest[before], np.where(tells_length, earliest[this] - length, computed[this])
    late = to_ns > from_ns
    return Lapses(this[late], from_ns[late], to_ns[late])
