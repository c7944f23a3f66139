"""Did acquire() succeed after the lease had expired?

A lease that is over when its holder learns of it is worth nothing: the holder enters a section without protection.
If the client was stopped meanwhile, the lock is not to blame. Otherwise acquire should have failed, whether or not
another client was inside. Two things show that nothing was left, and one is enough:

- the lease's own deadline, in the latest reading of the record;
- the keys: they had certainly expired on so many nodes that no majority was left, whether or not so many ever had them
  at the same time. A node that was out of sight counts with what it holds when it is back. That also finds locks that
  say yes and tell no time.

The yes counts as late only if it came so much later that no process can have stood still for that long unnoticed, and
the time for which the client was stopped is taken off: a process that is ready to run may be starved of CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, Literal, NamedTuple

import numpy as np
import pandas as pd

from fencepost.text import count, milliseconds, out_of, plural
from harness.checkers.acquire_timeouts import SLACK_MS
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.words import lasting
from harness.figures import CheckerFigures, Row
from harness.history.groups import Ints, known, rows_of_sections, where
from harness.history.leases import derive_leases
from harness.history.quorum_support import Backing, Loss
from harness.history.recorded import Recorded, named
from harness.history.standing_still import stood_still_ns
from harness.verdict import Answer

By = Literal["deadline", "keys"]
_ALONE_MS: Final = 150
"""What is not held against a lock that runs within its client, as its only task: one process less than in `SLACK_MS`
may stand still, and no other thread keeps the interpreter."""
_EXPIRED: Final[frozenset[Loss]] = frozenset({"expired", "never set"})


class Figures(CheckerFigures, frozen=True):
    """`grants`: acquires that were granted. `late`: how many of them had expired by then. `longest_ms`: by how much the
    latest of them came too late, after all that is not held against the lock; 0 without any."""

    grants: int
    late: int
    longest_ms: float

    def rows(self) -> Iterator[Row]:
        if self.late:
            grants = out_of(self.late, self.grants, "grant", "grants")
            yield Row("late", f"{grants} came after the lease had expired", order=62)


class _Late(NamedTuple):
    """`section`: its place. `over_ns`: when the lease was over. `late_ns`: how much later its client was told, without
    what is excused."""

    section: int
    shown_by: By
    over_ns: int
    late_ns: int


def check(run: Recorded) -> Answer:
    late = list(_late(run))
    figures = Figures(len(run.sections), len(late), max((one.late_ns for one in late), default=0) / 1e6)
    if not late:
        return Answer(figures)
    longest = max(late, key=lambda one: one.late_ns)
    text = (
        f"{count(len(late))} of {plural(len(run.sections), 'grant')} reached the client after the lease had expired, "
        f"by up to {milliseconds((longest.late_ns + _slack_ns(run)) / 1e6)}"
    )
    return Answer(figures, (LATE_GRANT.of(late, text, partial(_example, run), longest),))


def _late(run: Recorded) -> Iterator[_Late]:
    """The late grants, in the order of the sections."""
    slack_ns = _slack_ns(run)
    grants = derive_leases(_slow(run.ops, slack_ns), run.faults)
    said_ns = _said_ns(grants)
    in_time_ns = said_ns - stood_still_ns(grants, run) - slack_ns
    late = grants.assign(said_ns=said_ns, in_time_ns=in_time_ns)[in_time_ns > grants["invoke_ns"].to_numpy(np.int64)]
    if late.empty:
        return
    backing = run.backing
    columns = ("invoke_ns", "said_ns", "in_time_ns", "deadline_max_ns")
    for place, invoke_ns, said, in_time, deadline_ns in sorted(rows_of_sections(run.sections, late, *columns)):
        if place < 0:
            continue
        if deadline_ns < in_time:
            yield _Late(place, "deadline", deadline_ns, in_time - deadline_ns)
        elif backing is not None and place in backing.owners.values:
            over_ns = _over_ns(backing, place, invoke_ns, said)
            if over_ns is not None and over_ns < in_time:
                yield _Late(place, "keys", over_ns, in_time - over_ns)


def _slack_ns(run: Recorded) -> int:
    is_alone = not run.lock_has_process and run.config.tasks == 1
    return (_ALONE_MS if is_alone else SLACK_MS) * 1_000_000


def _slow(ops: pd.DataFrame, slack_ns: int) -> pd.DataFrame:
    """The acquires that took longer than the slack. Most did not, and only these can be late."""
    return where(ops, _said_ns(ops) - ops["invoke_ns"].to_numpy(np.int64) > slack_ns, f="acquire")


def _over_ns(backing: Backing, section: int, invoke_ns: int, said_ns: int) -> int | None:
    """When certainly no majority of the section's keys was left, because they had expired; None if that is not known,
    or there was none from the start."""
    expired_ns = backing.lives_until(section, invoke_ns, said_ns)
    if expired_ns is not None:
        return expired_ns
    # How long the keys live is not known where a node was out of sight; that it lacks them afterwards is.
    gone = backing.gone_by(section, invoke_ns, said_ns)
    if gone is None or gone.from_ns == invoke_ns or not backing.is_the_locks_doing(gone, _EXPIRED):
        return None
    return gone.from_ns


def _said_ns(calls: pd.DataFrame) -> Ints:
    """When the lock said yes to each of them."""
    there, said_ns = known(calls["computed_before_ns"])
    complete_ns: Ints = calls["complete_ns"].to_numpy(np.int64)
    return np.where(there, said_ns, complete_ns)


def _example(run: Recorded, late: _Late) -> dict[str, object]:
    section = run.sections.iloc[late.section]
    return {
        **named(section),
        "at_ms": run.at_ms(section.start_ns),
        "shown_by": late.shown_by,
        "over_for_ms": (int(section.start_ns) - late.over_ns) / 1e6,
    }


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    side, by_deadline = case.named.get("section"), case.example["shown_by"] == "deadline"
    what = "its validity had ended" if by_deadline else "its keys had expired on the nodes"
    took = "" if side is None else f"took {lasting(side.start_ns - side.asked_from_ns)} and "
    return Told(
        f"The acquire of {case.example['client']} {took}succeeded at {case.at()}, {case.lasting('over_for_ms')} after "
        f"{what}.",
        cause="deadline" if by_deadline else "expired",
    )


LATE_GRANT: Final = FindingKind("late-grant", "lease", _told, noun="grant(s) of an expired lease", surveyed="validity")
