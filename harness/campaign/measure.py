"""The figures of one run that a campaign keeps: enough to draw every table and plot again without the run's folder."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import numpy as np

from fencepost.text import count, milliseconds, number, percent, plural, printable
from harness.campaign import of_a_run as of
from harness.campaign.adding import (
    Figure,
    all_of_them,
    largest,
    measured,
    median_by_name,
    total_by_name,
    total_if_all_know,
    total_if_known,
    unadded,
)
from harness.campaign.durations import quantiles
from harness.campaign.exposure import Stakes, stakes_of
from harness.campaign.of_a_run import BLAMES, Blamed, JudgedRun
from harness.checkers import acquire_timeouts, disturbance, faults, liveness, quorum_backing
from harness.checkers.opportunities import Figures as Opportunities
from harness.checkers.orphans import Figures as Orphans
from harness.checkers.updates import UpdateFigures
from harness.explain.explanation import Explained
from harness.history.recorded import Recorded
from harness.verdict import Verdict

__all__ = ["BLAMES", "Blamed", "Figures", "measure"]


def in_columns(what: str, of: Mapping[str, float | None]) -> dict[str, object]:
    return {f"{what}_{name}_ms": of.get(name) for name in ("p50", "p99")}


def p50_p99(of: Mapping[str, float | None]) -> str:
    return f"p50 {milliseconds(of.get('p50'))}, p99 {milliseconds(of.get('p99'))}"


def median_and_longest(what: str, ms: Sequence[float]) -> dict[str, object]:
    found = (float(np.median(ms)), max(ms)) if ms else (None, None)
    return dict(zip((f"{what}_ms_median", f"{what}_ms_longest"), found, strict=True))


def waits(ms: Sequence[float]) -> str:
    if not ms:
        return "none went down"
    return f"median {milliseconds(float(np.median(ms)))}, longest {milliseconds(max(ms))}, {len(ms)} times"


def lateness(busy: disturbance.Figures | None) -> dict[str, str]:
    """How busy the machine was in the worst run; nothing for runs that kept no beats."""
    rows = {}
    for who, late in (("clients", busy and busy.clients), ("the harness", busy and busy.harness)):
        if late:
            rows[f"Scheduling delay of {who}"] = (
                f"p99 {milliseconds(late.p99_ms)} in the worst run, longest {milliseconds(late.longest_ms)}; CPU "
                f"starvation up to {number(late.waited_percent)} % of the time"
            )
    if busy and busy.latest:
        rows["Delay of injected faults"] = f"up to {milliseconds(busy.latest.late_ms)}"
    return rows


def machine_columns(busy: disturbance.Figures | None) -> dict[str, object]:
    """How late clients, the harness and faults were; nothing for a run that kept no beats."""
    row: dict[str, object] = {}
    for who, late in (("clients", busy and busy.clients), ("harness", busy and busy.harness)):
        row |= {f"{who}_{name}": value for name, value in (msgspec.structs.asdict(late) if late else {}).items()}
    if busy:
        row |= {"stolen_percent": busy.stolen_percent, "fault_late_ms": busy.latest and busy.latest.late_ms}
    return row


class Figures(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one run showed, or several together (`harness.campaign.adding`).

    `overlaps`: pairs of sections by blame; of a semaphore, the entries beyond its permits. `node_outages`: times at
    which nodes went down with what they had in memory; `node_outages_hit`: the ones that an overlap blamed on the lock
    followed; both are stored under the names that published reports have. `opportunities`, `opportunities_hit`: the
    same of the ones that hit a held key, as `harness.checkers.opportunities` counts them; None where no node went down.
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
    `moments` of a quarter of a second within the load, `moments_served`: those in which some client was granted a lock.
    `outage_waits_ms`: from each outage of any node to the first grant that was asked for after it.
    `dead_holder_waits_ms`: from each kill of a client inside to the next grant of its key. A wait that saw no grant
    lasts until clients were asked to end. `memory_mib`, `disk_mib`: of all servers of the lock together before the
    load; None in containers.
    """

    # fmt: off
    sections: Annotated[int, Figure(lambda s: len(s.run.sections), "Sections", "sections")]
    overlaps: Annotated[dict[str, int], Figure(
        of.overlaps, adds=total_by_name, columns=lambda v: {f"overlaps_{blame}": v.get(blame, 0) for blame in BLAMES},
        rows=lambda v: {"Pairs that overlapped": ", ".join(f"{v.get(blame, 0):,} {blame}" for blame in BLAMES)})]
    node_outages: Annotated[int, Figure(
        of.kept(Opportunities, "crashes", 0), "Node outages", "node_outages",
        hit="node_outages_hit")] = msgspec.field(name="strikes")
    node_outages_hit: Annotated[int, Figure(
        of.kept(Opportunities, "violations", 0))] = msgspec.field(name="strikes_hit")
    opportunities: Annotated[int | None, Figure(
        of.kept(Opportunities, "opportunities"), "Opportunities", "opportunities", total_if_all_know,
        hit="opportunities_hit")] = None
    opportunities_hit: Annotated[int | None, Figure(
        of.kept(Opportunities, "violated_opportunities"), adds=total_if_all_know)] = None
    load_s: Annotated[float, Figure(lambda s: (s.end_ns - s.begin_ns) / 1e9)]
    grants: Annotated[int, Figure(
        of.grants, "Acquisitions a second", "acquisitions_per_s", per="load_s", text=number)]
    reachable_s: Annotated[float, Figure(
        of.reachable_s, "Availability", "availability", per="load_s", text=percent)]
    acquire: Annotated[dict[int, int], Figure(
        of.durations, "Acquire call", adds=total_by_name, text=lambda v: p50_p99(quantiles(v)),
        columns=lambda v: in_columns("acquire", quantiles(v)))]
    majority_waits_ms: Annotated[tuple[float, ...], Figure(
        of.majority_waits_ms, "Wait after a majority went down", adds=all_of_them, text=waits,
        columns=lambda v: {"majority_wait_ms_median": float(np.median(v)) if v else None})] = ()
    longest_gap_ms: Annotated[float | None, Figure(
        of.kept(liveness.Figures, "longest_gap_ms"), "Longest gap with a majority in reach", "longest_gap_ms", largest,
        text=milliseconds)] = None
    lost: Annotated[int, Figure(
        of.kept(UpdateFigures, "lost", 0), "Lost updates", "lost_updates", among="acknowledged")] = 0
    acknowledged: Annotated[int, Figure(of.kept(UpdateFigures, "acknowledged", 0), column="acknowledged")] = 0
    faults_planned: Annotated[int, Figure(lambda s: s.run.planned_faults)] = 0
    faults_observed: Annotated[int, Figure(
        of.kept(faults.Figures, "observed", 0), "Faults that were verified active", among="faults_planned")] = 0
    fsync_ms: Annotated[dict[str, float] | None, Figure(
        of.fsync_ms, adds=median_by_name, rows=lambda v: {"Fsync on a node's disk": p50_p99(v)} if v else {},
        columns=lambda v: in_columns("fsync", v or {}))] = None
    blamed: Annotated[tuple[Blamed, ...], Figure(of.blamed, adds=all_of_them)] = ()
    orphans: Annotated[int | None, Figure(
        of.kept(Orphans, "count"), "Keys left without an owner", "orphans", total_if_known,
        left_behind=lambda v: plural(v, "key"))] = None
    orphan_longest_ms: Annotated[float | None, Figure(
        of.kept(Orphans, "longest_ms"), "Longest time without an owner", "orphan_longest_ms", largest,
        text=milliseconds, left_behind=lambda v: f"up to {milliseconds(v)}")] = None
    overruns: Annotated[int, Figure(
        of.kept(acquire_timeouts.Figures, "overruns", 0), "Acquire calls that took longer than allowed", "overruns",
        left_behind=lambda v: f"{plural(v, 'acquire')} took too long")] = 0
    unfounded: Annotated[int | None, Figure(
        of.kept(quorum_backing.Figures, "unfounded"), "Sections not backed by a majority", "sections_without_majority",
        total_if_known, left_behind=lambda v: f"{plural(v, 'section')} not backed by a majority")] = None
    totals: Annotated[dict[str, int], Figure(
        of.checkers_totals, adds=total_by_name, columns=dict,
        rows=lambda v: {printable(name): count(number) for name, number in v.items()})] = {}
    machine: Annotated[disturbance.Figures | None, Figure(
        lambda s: s.verdict.of(disturbance.Figures), adds=largest, rows=lateness, columns=machine_columns)] = None
    disturbed: Annotated[tuple[str, ...], Figure(
        of.disturbed, adds=all_of_them, columns=lambda v: {"disturbed": "; ".join(v)})] = ()
    stakes: Annotated[Stakes | None, Figure(lambda s: stakes_of(s.run, s.verdict), adds=unadded)] = None
    overtaken: Annotated[int | None, Figure(of.overtaken, column="overtaken", adds=largest)] = None
    moments: Annotated[int, Figure(of.moments)] = 0
    moments_served: Annotated[int, Figure(of.moments_served, column="served", per="moments")] = 0
    outage_waits_ms: Annotated[tuple[float, ...], Figure(
        of.outage_waits_ms, adds=all_of_them, columns=lambda v: median_and_longest("outage_wait", v))] = ()
    dead_holder_waits_ms: Annotated[tuple[float, ...], Figure(
        of.dead_holder_waits_ms, adds=all_of_them, columns=lambda v: median_and_longest("dead_holder_wait", v))] = ()
    memory_mib: Annotated[float | None, Figure(of.footprint("memory_mib"), column="memory_mib", adds=largest)] = None
    disk_mib: Annotated[float | None, Figure(of.footprint("disk_mib"), column="disk_mib", adds=largest)] = None
    # fmt: on


def measure(
    run: Recorded, verdict: Verdict, environment: Mapping[str, object], explained: Sequence[Explained] = ()
) -> Figures:
    """The figures of a judged run. `environment`: what `environment.json` holds. `explained`: its findings."""
    return measured(Figures, JudgedRun(run, verdict, environment, explained))
