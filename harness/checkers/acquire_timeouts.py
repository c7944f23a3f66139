"""Did acquire calls take longer than allowed?

A lock may declare how long its acquire takes at most (`acquire_limit_ms` in its description of itself); then that is
the limit. Otherwise the limit is the TTL, because a lease that takes longer to get than it lasts is worth nothing. Time
for which the client was stopped does not count: the record says what was stopped, and when. Nor does time for which it
can have been starved of CPU: of each second it is on record how long that was, but not when.

A call that is still under way when the harness gives up waiting for its client, seconds after everything was healed,
has no limit at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd

from fencepost.history import ClientEnd
from fencepost.text import count, milliseconds, printable
from harness.explain.causes import KEEP_CLIENTS_OUT
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.watched_nodes import WatchedNodes
from harness.explain.words import at, lasting, out_of_order
from harness.figures import KeyFigures, Row
from harness.history.groups import rows_of
from harness.history.recorded import Recorded
from harness.history.standing_still import stood_still_ns
from harness.verdict import Answer, Finding

SLACK_MS: Final = 250
"""This much is not held against the lock. A call passes two processes, the client's and perhaps one of the lock's own.
The record shows that one of them stood still only from 100 ms on (`harness.history.heartbeats`), and of the second
one not even its CPU starvation. It is the same for every TTL, because it is a property of the machine."""


class Figures(KeyFigures, frozen=True):
    """`limit_ms`: what a call was allowed; `declared`: whether the lock said so itself. `acquires`: calls. `overruns`:
    calls longer than the limit and `SLACK_MS`. `longest_ms`: the longest call; None without calls. Neither
    counts the time for which the client was stopped. `excused`: calls that were too long only because of that."""

    limit_ms: float
    declared: bool
    acquires: int
    overruns: int
    longest_ms: float | None
    excused: int

    def rows(self) -> Iterator[Row]:
        """`19 of 320 acquire calls took longer than the lock allows (1 s), up to 4.21 s`."""
        if self.overruns:
            allowed = "the lock allows" if self.declared else "the TTL"
            yield Row(
                "overruns",
                f"{count(self.overruns)} of {count(self.acquires)} acquire calls took longer than {allowed} "
                f"({milliseconds(self.limit_ms)}), up to {milliseconds(self.longest_ms)}",
                order=90,
            )


def check(run: Recorded) -> Answer:
    limit_ms = run.config.ttl_ms if run.acquire_limit_ms is None else run.acquire_limit_ms
    allowed = round((limit_ms + SLACK_MS) * 1e6)
    calls = run.calls("acquire")[["client", "section", "invoke_ns", "complete_ns"]]
    took = (calls["complete_ns"] - calls["invoke_ns"]).to_numpy(np.int64)
    ran = took - stood_still_ns(calls, run)
    excused = calls.assign(took=took, ran=ran)[took > allowed]
    over = excused[excused["ran"] > allowed]
    figures = Figures(
        limit_ms=limit_ms,
        declared=run.acquire_limit_ms is not None,
        acquires=len(calls),
        overruns=len(over),
        longest_ms=int(ran.max()) / 1e6 if len(calls) else None,
        excused=len(excused) - len(over),
    )
    findings = [_unending(run, ends)] if (ends := list(_never_ended(run))) else []
    if len(over) and run.acquire_limit_ms is not None:
        findings.insert(0, _overruns(run, over, len(calls), limit_ms))
    return Answer(figures, tuple(findings))


def _overruns(run: Recorded, over: pd.DataFrame, acquires: int, limit_ms: float) -> Finding:
    longest = int(over["ran"].argmax())
    text = (
        f"{len(over)} of {acquires} acquire calls took longer than the lock allows them "
        f"({milliseconds(limit_ms)}), up to {milliseconds(float(over['ran'].max()) / 1e6)}"
    )
    listed = over.iloc[list(dict.fromkeys([longest, *range(min(3, len(over)))]))]
    examples = tuple(
        {
            "client": str(client),
            "section": section,
            "at_ms": run.at_ms(invoke_ns),
            "took_ms": took / 1e6,
            "stopped_ms": (took - ran) / 1e6,
        }
        for client, section, invoke_ns, took, ran in rows_of(listed, "client", "section", "invoke_ns", "took", "ran")
    )
    return OVERRUN.found("lock", text, len(over), examples, run.at_ms(over["invoke_ns"].min()))


def _never_ended(run: Recorded) -> Iterator[ClientEnd]:
    """Clients that were still acquiring when the harness gave up waiting for them to end, although no fault can have
    been in force since it asked them to, and not within what the lock allows itself. One that declares nothing may take
    a TTL longer than it was told to wait."""
    stop_ns = run.timeline.stop_ns
    if stop_ns is None or run.timeline.interrupted or run.timeline.healed_ns is None:
        return
    if any(until >= stop_ns for _, _, until in run.fault_windows):
        return
    limit_ms = run.config.wait_ms + run.config.ttl_ms if run.acquire_limit_ms is None else run.acquire_limit_ms
    limit_ns = round(limit_ms * 1e6)
    for end in run.ends:
        in_time = end.since_ns is not None and end.at_ns - end.since_ns < limit_ns
        if end.how == "cut-off" and end.under_way == "acquiring" and not in_time:
            yield end


def _unending(run: Recorded, ends: Sequence[ClientEnd]) -> Finding:
    stop_ns = run.timeline.stop_ns or 0
    calls = "1 acquire call" if len(ends) == 1 else f"{len(ends)} acquire calls"
    longest_ms = max((end.at_ns - stop_ns) / 1e6 for end in ends)
    text = (
        f"{calls} had not ended {milliseconds(longest_ms)} after the clients were asked to end, although no fault "
        "was in force"
    )

    def example(end: ClientEnd) -> dict[str, object]:
        times = {"at_ms": run.at_ms(end.at_ns), "waited_ms": (end.at_ns - stop_ns) / 1e6}
        return {"client": end.client, "life": end.life, **times}

    return NEVER_ENDED.of(ends, text, example, at_ms=run.at_ms(min(end.at_ns for end in ends)))


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    began_ns = run.at_ns(case.example["at_ms"])
    took_ns = round(float(case.example["took_ms"]) * 1e6)
    limit = "" if run.acquire_limit_ms is None else f"; the lock allows it {milliseconds(run.acquire_limit_ms)}"
    meanwhile = out_of_order(run, began_ns, began_ns + took_ns)
    return Told(
        f"An acquire of {case.example['client']} took {lasting(took_ns)}, from {at(run, began_ns)} on{limit}. "
        f"Meanwhile {meanwhile or 'no fault was in force'}."
    )


def _told_unending(run: Recorded, evidence: Evidence, case: Case) -> Told:
    client, watched = str(case.example["client"]), WatchedNodes.of(run)
    text = f"{printable(client)} still waited for the lock at {case.at()}"
    # Clients are cut off one after the other.
    first_ns = min(end.at_ns for end in run.ends if end.how == "cut-off")
    kept = None if watched is None else watched.why_waiting(client, first_ns)
    return Told(f"{text}.") if kept is None else Told(f"{text}: {kept.reason.text}.", cause=kept.reason.cause)


OVERRUN: Final = FindingKind("acquire-overrun", "liveness", _told, noun="slow acquire(s)", surveyed="timeout")
NEVER_ENDED: Final = FindingKind(
    "acquire-never-ended",
    "liveness",
    _told_unending,
    comes_of=("stuck keys", *KEEP_CLIENTS_OUT),
    noun="acquire(s) that never ended",
    surveyed="timeout",
)
