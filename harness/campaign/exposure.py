"""Exposure of a run: how often a fault had the chance to make the lock break each promise.

A campaign that says "never broken" needs to know how often it could have been. Nothing here is a verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from fencepost.history import FaultEvent
from fencepost.quorum import quorum
from harness.checkers import acquire_timeouts, coverage, exclusion, undeleted_keys
from harness.history.fault_windows import merged, windows
from harness.history.recorded import Recorded
from harness.verdict import Verdict

How = Literal["down", "hung"]


class MinorityOutage(msgspec.Struct, frozen=True):
    """A time in which certainly one node or more, but not too many for a majority, was down or hung. `grants`: in this
    time. `longest_idle_ms`: the longest part of it in which no client was inside."""

    how: How
    lasted_ms: float
    grants: int
    longest_idle_ms: float


class Stakes(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`calls`: by verb and outcome. `met`: by step of the lock, how many times a fault was in force during it.
    `acquire_limit_ms`: how long an acquire may take according to the lock; None if it declares nothing.
    `keys_looked_at`: keys that nothing kept the lock from deleting; None where the record does not show it.
    `overlaps_by_part`: of the overlaps blamed on the lock, which part failed (`harness.history.responsible_component`);
    None if that is not known."""

    calls: dict[str, dict[str, int]] = {}
    met: dict[str, int] = {}
    acquire_limit_ms: float | None = None
    keys_looked_at: int | None = None
    overlaps_by_part: dict[str, int] | None = None
    outages: tuple[MinorityOutage, ...] = ()


def stakes_of(run: Recorded, verdict: Verdict) -> Stakes:
    """The exposure of a judged run."""
    limit, left = verdict.of(acquire_timeouts.Figures), verdict.of(undeleted_keys.Figures)
    met, overlaps = verdict.of(coverage.Figures), verdict.of(exclusion.Figures)
    return Stakes(
        calls=_calls(run),
        met={step: number for step, number in met.by_step.items() if number} if met else {},
        acquire_limit_ms=limit.limit_ms if limit and limit.declared else None,
        keys_looked_at=left.after_releases + left.after_attempts if left else None,
        overlaps_by_part={str(part): number for part, number in overlaps.lock_by_part.items()}
        if overlaps and overlaps.lock_by_part
        else None,
        outages=tuple(_outages(run)),
    )


def _calls(run: Recorded) -> dict[str, dict[str, int]]:
    calls: dict[str, dict[str, int]] = {}
    pairs = zip(run.ops["f"].astype(str), run.ops["outcome"].astype(str), strict=True)
    for (verb, outcome), number in sorted(Counter(pairs).items()):
        calls.setdefault(verb, {})[outcome] = number
    return calls


def _hits_nodes_alone(event: FaultEvent) -> bool:
    is_outage = bool(event.nodes) and event.node_state != "answering errors"
    return is_outage and not event.wrong_clocks and not event.hit_clients


def _outages(run: Recorded) -> Iterator[MinorityOutage]:
    """Faults that no other active fault overlaps: then nothing else can have kept a client out."""
    spare = run.config.nodes - quorum(run.config.nodes)
    active = [window for window in windows(run.faults) if window.took and window.to_ns is not None]
    start, end = (run.sections[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    for window in active:
        from_ns, to_ns, event = window.from_ns, window.to_ns or 0, window.event
        if not _hits_nodes_alone(event) or len(event.nodes) > spare or to_ns <= from_ns:
            continue
        if any(w is not window and w.from_ns < to_ns and (w.to_ns or 0) > from_ns for w in active):
            continue
        inside = merged(zip(start.tolist(), end.tolist(), strict=True), from_ns, to_ns)
        edges = [from_ns, *(at for stretch in inside for at in stretch), to_ns]
        idle = max(edges[i + 1] - edges[i] for i in range(0, len(edges), 2))
        yield MinorityOutage(
            how="down" if event.took_nodes_down else "hung",
            lasted_ms=(to_ns - from_ns) / 1e6,
            grants=int(((start >= from_ns) & (start < to_ns)).sum()),
            longest_idle_ms=idle / 1e6,
        )
