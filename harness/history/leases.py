"""Leases that a lock granted: when each can have begun and ended, which promised no time, and the gaps between one and
its extension.

A grant without a promised lease time is open-ended: the lock is held until it is released, or until its session ends. A
gap is a lapse: the lease had expired under every reading before the extension that followed can have been computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from fencepost.history import FaultEvent
from harness.history.fault_windows import FOREVER_NS, longest_windows, merged
from harness.history.groups import Bools, Ints, columns_of, grouped, known, which

RESUME_SLACK_NS: Final = 50_000_000
"""A process that was just resumed has to be scheduled before it can take a timestamp; for this long it counts as
paused. A larger value only leaves more overlaps undecided, for grants made right after a pause."""
SLEW: Final = 500e-6
"""How much faster than ours a healthy clock may run: NTP slews by that much ("adjtime(3)", RFC 5905)."""
SERVER_TICK_NS: Final = 1_000_000
"""Servers count a key's time to live in whole milliseconds."""
_OF_LEASES: Final = [
    *("client", "life", "f", "key", "section", "invoke_ns", "complete_ns", "validity_ms", "granted_ms"),
    *("deadline_ns", "computed_after_ns", "computed_before_ns", "requested_ns"),
]
_TOLD: Final = ("validity_ms", "granted_ms", "deadline_ns")


def derive_leases(
    ops: pd.DataFrame, faults: Sequence[FaultEvent], steps: Collection[str] = ("acquire", "extend")
) -> pd.DataFrame:
    """Every lease that was granted by one of these steps: these rows of `ops`, with their index and those columns
    that say who was told what, and with `deadline_min_ns`, `deadline_max_ns`, `computed_min_ns`, `told_at_return`.

    A validity counts from the time at which the lock computed it. That time is within the call, not before the first
    request of the round that granted it, and within the lock's own timestamps. If the client was stopped while it took
    them, they may be late: their distance counts as running time, and pauses are excluded from it. `computed_min_ns` is
    the earliest such time.

    A lock that said yes and nothing else (`told_at_return`) granted the lease time from some time within the call on.
    The earliest end leaves out what a healthy server's clock may gain.

    A client that was told yes, and at once that no validity is left, outlived no lease: it may last forever. So
    may an open-ended lease, for which no time was promised.
    """
    leases = ops[_OF_LEASES][which(ops, f=steps, outcome="ok")].copy(deep=False)
    invoke, complete = columns_of(leases, "invoke_ns", "complete_ns")
    before = np.clip(_or(leases["computed_before_ns"], complete), invoke, complete)
    after = np.clip(_or(leases["computed_after_ns"], invoke), invoke, before)
    for client, pauses in pause_windows(faults).items():
        rows = np.flatnonzero((leases["client"] == client).to_numpy())
        after[rows] = _without_pauses(after[rows], before[rows], pauses)
    after = np.clip(np.maximum(after, _or(leases["requested_ns"], invoke)), invoke, before)
    validity_ns = leases["validity_ms"].to_numpy(np.float64) * 1e6
    told = np.isfinite(validity_ns)
    granted_ns = leases["granted_ms"].to_numpy(np.float64) * 1e6
    at_return = ~told & np.isfinite(granted_ns) & leases["deadline_ns"].isna().to_numpy()
    told |= at_return
    validity_ns = np.where(told, np.where(at_return, granted_ns, validity_ns), 0)
    surely_ns = np.where(at_return, np.maximum(validity_ns * (1 - SLEW) - SERVER_TICK_NS, 0), validity_ns)
    earliest = np.where(told, after + np.floor(surely_ns).astype(np.int64), invoke - 1)
    leases["deadline_min_ns"] = _or(leases["deadline_ns"], earliest)
    latest = np.where(told, before + np.ceil(validity_ns).astype(np.int64), FOREVER_NS)
    latest = _or(leases["deadline_ns"], latest)
    leases["deadline_max_ns"] = np.where(told & (validity_ns <= 0), FOREVER_NS, latest)
    leases["computed_min_ns"], leases["told_at_return"] = after, at_return
    return leases


def pause_windows(faults: Iterable[FaultEvent]) -> dict[str, list[tuple[int, int]]]:
    """By client, the longest times for which it may have been stopped, plus the slack: disjoint, in order."""
    paused = grouped(
        (client, (began, done + RESUME_SLACK_NS))
        for event, began, done in longest_windows(faults)
        for client in event.paused_clients
    )
    return {client: merged(windows, 0, FOREVER_NS) for client, windows in paused.items()}


def granted_open_ended(ops: pd.DataFrame) -> Bools:
    """Which rows are grants without a promised lease time."""
    return which(ops, *(ops[told].isna() for told in _TOLD), f="acquire", outcome="ok")


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
    """The lapses between these leases (`derive_leases`). `section`: a number for the section
    of each."""
    if not (leases["f"] == "extend").any():
        return Lapses(*np.zeros((3, 0), np.int64))
    names = ("complete_ns", "deadline_min_ns", "deadline_max_ns", "computed_min_ns")
    complete, earliest, latest, computed = columns_of(leases, *names)
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


def _without_pauses(after: Ints, before: Ints, pauses: Sequence[tuple[int, int]]) -> Ints:
    """The latest times from which a process ran for `before - after` up to `before`, not counting the pauses."""
    moved = after.copy()
    for began, done in reversed(pauses):
        moved -= np.where(moved <= done, np.maximum(np.minimum(done, before) - began, 0), 0)
    return moved


def _or(values: pd.Series, otherwise: Ints) -> Ints:
    """The values, with missing ones replaced by `otherwise`."""
    if values.isna().all():
        return otherwise
    there, value = known(values)
    return np.where(there, value, otherwise)
