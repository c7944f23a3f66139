"""The figures of one run that a campaign keeps: enough to draw every table and plot again without the run's folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from fencepost.history import FaultEvent
from harness.campaign.disturbed import disturbances
from harness.campaign.stakes import Stakes, stakes_of
from harness.checkers import (
    acquire_timeouts,
    capacity,
    disturbance,
    exclusion,
    faults,
    liveness,
    opportunities,
    orphans,
    quorum_backing,
)
from harness.checkers.updates import UpdateFigures
from harness.explain.explanation import Explained, clearest_of
from harness.history.fault_windows import majority_windows
from harness.history.recorded import Recorded
from harness.verdict import Finding, Verdict

Ints = npt.NDArray[np.int64]

BINS_PER_DECADE: Final = 100
"""A latency is known to within 2.3 %."""

BLAMES: Final = ("lock", "client", "undecided")


class Blamed(msgspec.Struct, frozen=True):
    """A kind of finding for which the lock is to blame: when the first one happened, in ms since the start, None where
    that is not told; and what the verdict said. `why`: the sentence that explains its clearest example, empty if there
    is none; `cause`: what that names as the cause (`harness.explain.causes`), None if the finding itself says all.
    `count`: how many there were; older records do not tell."""

    kind: str
    at_ms: float | None
    text: str
    cause: str | None = None
    why: str = ""
    count: int = 1


class Figures(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one run showed.

    `overlaps`: pairs of sections by blame; of a semaphore, the entries beyond its permits. `node_outages`: times at
    which nodes went down with what they had in memory; `node_outages_hit`: those that an overlap blamed on the lock
    followed; both are stored under the names that published reports have. `opportunities`, `opportunities_hit`: the
    same of those with a key at stake, as `harness.checkers.opportunities` counts them; None where no node went down.
    `grants` within `load_s`, the time from the start to the heal;
    `reachable_s`: the part of it in which some running client could certainly reach a majority. `acquire`: granted
    acquire calls within the load, by bin of their duration (`bin_of`). `majority_waits_ms`: from each outage of a
    majority to the next grant that was asked for after it. `fsync_ms`: what an fsync cost on a node's disk before the
    load, `p50` and `p99` among others; None if the nodes had no separate disks. `blamed`: the findings for which the
    lock is to blame. `orphans`: keys left on a node without an owner; `unfounded`: sections not backed by a majority;
    both None where it is not known whose the keys were. `overruns`: acquire calls that took longer than
    they were allowed. `totals`: the counts that checkers add up over runs, by name. `machine`: how busy it was; None
    for a run that kept no beats. `disturbed`: why the run was too disturbed for what it claims, empty if it was not.
    `stakes`: how often the lock was put to the test; None in older records. `overtaken`: how many grants of a key
    others were given, at most, while one client waited for it; None in older records, and without sections.
    """

    sections: int
    overlaps: dict[str, int]
    node_outages: int = msgspec.field(name="strikes")
    node_outages_hit: int = msgspec.field(name="strikes_hit")
    opportunities: int | None = None
    opportunities_hit: int | None = None
    load_s: float
    grants: int
    reachable_s: float
    acquire: dict[int, int]
    majority_waits_ms: tuple[float, ...] = ()
    longest_gap_ms: float | None = None
    lost: int = 0
    acknowledged: int = 0
    faults_planned: int = 0
    faults_observed: int = 0
    fsync_ms: dict[str, float] | None = None
    blamed: tuple[Blamed, ...] = ()
    orphans: int | None = None
    orphan_longest_ms: float | None = None
    overruns: int = 0
    unfounded: int | None = None
    totals: dict[str, int] = {}
    machine: disturbance.Figures | None = None
    disturbed: tuple[str, ...] = ()
    stakes: Stakes | None = None
    overtaken: int | None = None


def measure(
    run: Recorded, verdict: Verdict, environment: Mapping[str, object], explained: Sequence[Explained] = ()
) -> Figures:
    """The figures of a judged run. `environment`: what `environment.json` holds. `explained`: its findings."""
    begin = run.timeline.start_ns
    end = run.timeline.healed_ns or run.timeline.end_ns or begin
    start: Ints = run.sections["start_ns"].to_numpy(np.int64)
    down = node_outages(run.faults)
    outages = verdict.of(opportunities.Figures)
    overlaps, crowd, waits = verdict.of(exclusion.Figures), verdict.of(capacity.Figures), verdict.of(liveness.Figures)
    by_blame = crowd.beyond if crowd else overlaps.overlaps if overlaps else {}
    data, played = verdict.of(UpdateFigures), verdict.of(faults.Figures)
    left, late, backing = (
        verdict.of(orphans.Figures),
        verdict.of(acquire_timeouts.Figures),
        verdict.of(quorum_backing.Figures),
    )
    machine = verdict.of(disturbance.Figures)
    reachable = majority_windows(run.config.user_names, run.nodes, run.faults, run.ends, begin, end)
    return Figures(
        sections=len(run.sections),
        overlaps={blame: by_blame.get(blame, 0) for blame in BLAMES},
        node_outages=outages.crashes if outages else 0,
        node_outages_hit=outages.violations if outages else 0,
        opportunities=outages.opportunities if outages else None,
        opportunities_hit=outages.violated_opportunities if outages else None,
        load_s=(end - begin) / 1e9,
        grants=int(((start >= begin) & (start < end)).sum()),
        reachable_s=sum(until - since for since, until in reachable) / 1e9,
        acquire=_durations(run, end),
        majority_waits_ms=tuple(_majority_waits_ms(run, down)),
        longest_gap_ms=waits.longest_gap_ms if waits else None,
        lost=data.lost if data else 0,
        acknowledged=data.acknowledged if data else 0,
        faults_planned=run.planned_faults,
        fsync_ms=_fsync_ms(environment),
        blamed=tuple(_blamed(f, explained) for f in verdict.findings if f.blame == "lock"),
        faults_observed=played.observed if played else 0,
        orphans=left.count if left else None,
        orphan_longest_ms=left.longest_ms if left else None,
        overruns=late.overruns if late else 0,
        unfounded=backing.unfounded if backing else None,
        totals={name: number for own in verdict.figures.values() for name, number in own.totals().items()},
        machine=machine,
        disturbed=tuple(disturbances(machine, run.config.ttl_ms)) if machine else (),
        stakes=stakes_of(run, verdict),
        overtaken=_overtaken(run),
    )


def _blamed(finding: Finding, explained: Sequence[Explained]) -> Blamed:
    shown = clearest_of(finding, explained)
    cause, why = (shown.cause, shown.sentence) if shown else (None, "")
    return Blamed(finding.kind, finding.at_ms, finding.text, cause, why, finding.count)


def node_outages(events: Iterable[FaultEvent]) -> list[FaultEvent]:
    """The injections that were seen to take nodes down, in order. A paused node keeps its memory and is none."""
    taken = (e for e in events if e.event == "injected" and e.holds and e.took_nodes_down)
    return sorted(taken, key=lambda event: event.done_ns)


def bin_of(ms: npt.NDArray[np.float64]) -> Ints:
    """The bins of durations: 100 a decade, bin 0 begins at 1 ms."""
    bins: Ints = np.floor(np.log10(np.maximum(ms, 1e-3)) * BINS_PER_DECADE).astype(np.int64)
    return bins


def middle_ms(bins: Ints) -> npt.NDArray[np.float64]:
    """The duration in the middle of each bin."""
    middles: npt.NDArray[np.float64] = 10.0 ** ((bins + 0.5) / BINS_PER_DECADE)
    return middles


def quantile_ms(counts: Mapping[int, int], share: float) -> float | None:
    """The duration that this share of the counted ones does not exceed, or None if there are none."""
    if not counts:
        return None
    bins = np.array(sorted(counts), np.int64)
    reached = np.cumsum([counts[int(b)] for b in bins])
    return float(middle_ms(bins[[int(np.searchsorted(reached, share * reached[-1]))]])[0])


def _durations(run: Recorded, end_ns: int) -> dict[int, int]:
    ops = run.ops
    granted = ops[(ops["f"] == "acquire") & (ops["outcome"] == "ok") & (ops["invoke_ns"] < end_ns)]
    took_ms = (granted["complete_ns"] - granted["invoke_ns"]).to_numpy(np.float64) / 1e6
    bins, counts = np.unique(bin_of(took_ms), return_counts=True)
    return dict(zip(bins.tolist(), counts.tolist(), strict=True))


def _majority_waits_ms(run: Recorded, down: list[FaultEvent]) -> Iterator[float]:
    """What was asked for before the outage may still be granted just after it."""
    start, asked = (run.sections[name].to_numpy(np.int64) for name in ("start_ns", "asked_ns"))
    for event in down:
        if len(event.nodes) > run.config.nodes // 2:
            later = start[asked > event.done_ns]
            if len(later):
                yield float(later.min() - event.done_ns) / 1e6


def _overtaken(run: Recorded) -> int | None:
    worst = None
    for _, of_key in run.sections.groupby("key", observed=True):
        start: Ints = np.sort(of_key["start_ns"].to_numpy(np.int64))
        until = np.searchsorted(start, of_key["start_ns"].to_numpy(np.int64), "left")
        since = np.searchsorted(start, of_key["asked_ns"].to_numpy(np.int64), "right")
        worst = max(int((until - since).max()), worst or 0)
    return worst


def _fsync_ms(environment: Mapping[str, object]) -> dict[str, float] | None:
    found = _mapping(_mapping(_mapping(environment.get("cluster")).get("disks")).get("fsync_ms"))
    return {name: float(ms) for name, ms in found.items() if isinstance(ms, int | float)} or None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
