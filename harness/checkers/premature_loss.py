"""Was the lock still there when its holder gave it back?

A refused release says that the lock was no longer held. After the validity that is correct. Within it, if no fault can
have been in force since the acquire began (a node that lost its memory, a reply that was lost), another client took or
deleted the keys, or they expired too early. The holder itself finds this out, so it shows even if no other client
acquired the lock.

A lock may say so only because the nodes did not answer in time, on a machine that is too busy, say. So nothing was lost
if a majority of the nodes may still have held the section's value when the release was asked for.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.explain.kinds import FindingKind
from harness.figures import CheckerFigures
from harness.history.fault_windows import longest_windows
from harness.history.key_owners import places_of, rows_of
from harness.history.recorded import Recorded
from harness.verdict import Answer


class Figures(CheckerFigures, frozen=True):
    """`lost_early`: leases that were gone when they were released within their validity, without any fault. Shown as a
    finding."""

    lost_early: int


def check(run: Recorded) -> Answer:
    ops = run.ops
    released = ops[(ops["f"] == "release") & (ops["outcome"] == "fail")]
    if released.empty:
        return Answer(Figures(0))
    held = run.sections[["client", "life", "section", "asked_ns", "start_ns", "deadline_min_ns"]]
    names = ["client", "life", "section"]
    both = (
        released[[*names, "key", "invoke_ns", "complete_ns"]]
        .astype({"client": str})
        .merge(held.astype({"client": str}), on=names)
    )
    both = both[both["complete_ns"] < both["deadline_min_ns"]]
    begun, done = both["asked_ns"].to_numpy(np.int64), both["complete_ns"].to_numpy(np.int64)
    disturbed = np.zeros(len(both), np.bool_)
    for _, since, until in longest_windows(run.faults):
        disturbed |= (since <= done) & (until >= begun)
    lost = both[~disturbed & ~_may_have_been_held(run, both)]
    figures = Figures(len(lost))
    if not len(lost):
        return Answer(figures)
    examples = tuple(
        {
            "client": row["client"],
            "life": int(row["life"]),
            "section": int(row["section"]),
            "key": str(row["key"]),
            "at_ms": run.at_ms(row["complete_ns"]),
            "validity_left_ms": (int(row["deadline_min_ns"]) - int(row["complete_ns"])) / 1e6,
        }
        for row in lost.sort_values("complete_ns").head(5).to_dict("records")
    )
    one = "lease was lost before its holder released it, within its validity"
    several = "leases were lost before their holders released them, within their validity"
    # Servers that copy each other change their roles long after a fault.
    change = "a failover lost the keys, " if run.one_serves and run.faults else ""
    text = (
        f"{len(lost):,} {one if len(lost) == 1 else several}, although no fault was in force: {change}another client "
        "deleted or took the keys, or they expired too early"
    )
    return Answer(figures, (LOST_EARLY.found("lock", text, len(lost), examples),))


def _may_have_been_held(run: Recorded, released: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """For each release, whether a majority may have held the section's value when it was asked for. False where that is
    not on record."""
    backing, places = run.backing, places_of(run.sections)
    found = np.zeros(len(released), np.bool_)
    if backing is not None:
        for row, (*of, invoke_ns) in enumerate(rows_of(released, "client", "life", "section", "invoke_ns")):
            place = places[tuple(of)]
            if place in backing.owners.values:
                found[row] = backing.may_have_been_held(place, invoke_ns, invoke_ns)
    return found


LOST_EARLY: Final = FindingKind(
    "lease-lost-early",
    "lease",
    comes_of=("deleted", "deleted by itself", "shared value", "overwritten", "expired", "too few nodes"),
    noun="lease(s) lost early",
)
