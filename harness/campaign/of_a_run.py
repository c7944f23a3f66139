"""What is measured of a judged run (`harness.campaign.measure` says which figure each is)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from fencepost.history import FaultEvent
from fencepost.text import milliseconds, number
from harness.campaign.durations import Ints, bin_of
from harness.checkers import capacity, disturbance, exclusion
from harness.checkers.coverage import BRIEF_TTLS
from harness.explain.explanation import Explained, clearest_of
from harness.figures import CheckerFigures
from harness.history.fault_windows import majority_windows
from harness.history.recorded import Recorded
from harness.verdict import Finding, Verdict

BLAMES: Final = ("lock", "client", "undecided")
_STOLEN_PERCENT: Final = 5.0
"""More than the figures of equal runs on a quiet machine differ from each other."""
MOMENT_NS: Final = 250_000_000
"""The load is cut into moments of this length, in each of which some client is granted a lock or none is."""


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


class JudgedRun(NamedTuple):
    """A judged run, of which figures are measured. `environment`: what `environment.json` holds. `explained`: its
    findings."""

    run: Recorded
    verdict: Verdict
    environment: Mapping[str, object]
    explained: Sequence[Explained]

    @property
    def begin_ns(self) -> int:
        return self.run.timeline.start_ns

    @property
    def end_ns(self) -> int:
        """Of the load."""
        return self.run.timeline.healed_ns or self.run.timeline.end_ns or self.begin_ns


def kept(figures: type[CheckerFigures], name: str, otherwise: object = None) -> Callable[[JudgedRun], Any]:
    """What a checker kept under this name; `otherwise` where it kept nothing."""

    def of(seen: JudgedRun) -> Any:
        found = seen.verdict.of(figures)
        return otherwise if found is None else getattr(found, name)

    return of


def overlaps(seen: JudgedRun) -> dict[str, int]:
    pairs, crowd = seen.verdict.of(exclusion.Figures), seen.verdict.of(capacity.Figures)
    found = crowd.beyond if crowd else pairs.overlaps if pairs else {}
    return {blame: found.get(blame, 0) for blame in BLAMES}


def grants(seen: JudgedRun) -> int:
    start: Ints = seen.run.sections["start_ns"].to_numpy(np.int64)
    return int(((start >= seen.begin_ns) & (start < seen.end_ns)).sum())


def reachable_s(seen: JudgedRun) -> float:
    run, load = seen.run, (seen.begin_ns, seen.end_ns)
    found = majority_windows(run.config.user_names, run.nodes, run.faults, run.ends, *load, group=run.group)
    return sum(until - since for since, until in found) / 1e9


def node_outages(events: Iterable[FaultEvent]) -> list[FaultEvent]:
    """The injections that were seen to take nodes down, in order. A paused node keeps its memory and is none."""
    taken = (e for e in events if e.event == "injected" and e.holds and e.took_nodes_down)
    return sorted(taken, key=lambda event: event.done_ns)


def durations(seen: JudgedRun) -> dict[int, int]:
    ops = seen.run.ops
    granted = ops[(ops["f"] == "acquire") & (ops["outcome"] == "ok") & (ops["invoke_ns"] < seen.end_ns)]
    took_ms = (granted["complete_ns"] - granted["invoke_ns"]).to_numpy(np.float64) / 1e6
    bins, counts = np.unique(bin_of(took_ms), return_counts=True)
    return dict(zip(bins.tolist(), counts.tolist(), strict=True))


def majority_waits_ms(seen: JudgedRun) -> tuple[float, ...]:
    """What was asked for before the outage may still be granted just after it."""
    run = seen.run
    start, asked = (run.sections[name].to_numpy(np.int64) for name in ("start_ns", "asked_ns"))
    outages = [event.done_ns for event in node_outages(run.faults) if len(event.nodes) > run.config.nodes // 2]
    later = [(at_ns, start[asked > at_ns]) for at_ns in outages]
    return tuple(float(grants_ns.min() - at_ns) / 1e6 for at_ns, grants_ns in later if len(grants_ns))


def outage_waits_ms(seen: JudgedRun) -> tuple[float, ...]:
    """From each outage of any node to the first grant that was asked for, call by call, after it."""
    ops = seen.run.ops
    granted = ops[((ops["f"] == "acquire") & (ops["outcome"] == "ok")).to_numpy(np.bool_)]
    asked, done = (granted[name].to_numpy(np.int64) for name in ("invoke_ns", "complete_ns"))
    outages = [event.done_ns for event in node_outages(seen.run.faults)]
    return tuple(_until_ms(seen, at_ns, done[asked > at_ns]) for at_ns in outages)


def dead_holder_waits_ms(seen: JudgedRun) -> tuple[float, ...]:
    """From each kill of a client inside to the next grant of the same key."""
    sections = seen.run.sections
    killed = sections[((sections["ended"] == "killed") & (sections["end_ns"] < seen.end_ns)).to_numpy(np.bool_)]
    found = []
    for key, died_ns in zip(killed["key"], killed["end_ns"].tolist(), strict=True):
        start = sections.loc[(sections["key"] == key).to_numpy(np.bool_), "start_ns"].to_numpy(np.int64)
        found.append(_until_ms(seen, died_ns, start[start > died_ns]))
    return tuple(found)


def _until_ms(seen: JudgedRun, since_ns: int, grants_ns: Ints) -> float:
    """Until the first of these grants; without any, until clients were asked to end."""
    until_ns = int(grants_ns.min()) if len(grants_ns) else max(since_ns, seen.run.timeline.stop_ns or seen.end_ns)
    return (until_ns - since_ns) / 1e6


def moments(seen: JudgedRun) -> int:
    return max(0, (seen.end_ns - seen.begin_ns) // MOMENT_NS)


def moments_served(seen: JudgedRun) -> int:
    at = (seen.run.sections["start_ns"].to_numpy(np.int64) - seen.begin_ns) // MOMENT_NS
    return len(np.unique(at[(at >= 0) & (at < moments(seen))]))


def footprint(name: str) -> Callable[[JudgedRun], float | None]:
    """What all servers of the lock take together; None where that was not measured."""

    def of(seen: JudgedRun) -> float | None:
        servers = _mapping(_mapping(seen.environment.get("cluster")).get("footprint")).values()
        each = [value for one in servers if isinstance(value := _mapping(one).get(name), int | float)]
        return float(sum(each)) if each else None

    return of


def overtaken(seen: JudgedRun) -> int | None:
    worst = None
    for _, of_key in seen.run.sections.groupby("key", observed=True):
        start: Ints = np.sort(of_key["start_ns"].to_numpy(np.int64))
        until = np.searchsorted(start, of_key["start_ns"].to_numpy(np.int64), "left")
        since = np.searchsorted(start, of_key["asked_ns"].to_numpy(np.int64), "right")
        worst = max(int((until - since).max()), worst or 0)
    return worst


def fsync_ms(seen: JudgedRun) -> dict[str, float] | None:
    found = _mapping(_mapping(_mapping(seen.environment.get("cluster")).get("disks")).get("fsync_ms"))
    return {name: float(ms) for name, ms in found.items() if isinstance(ms, int | float)} or None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def disturbances(of: disturbance.Figures, ttl_ms: float) -> Iterator[str]:
    """What of a run was too far from its plan, each in a few words; nothing for a run that can be compared. Rates are
    those of a plan: these faults, at these times, against clients that go on at once. A delay is long if it is a tenth
    of a TTL, as for a fault that lasts so short (`harness.checkers.coverage`)."""
    limit_ms = BRIEF_TTLS * ttl_ms
    for who, late in (("clients", of.clients), ("the harness", of.harness)):
        if late and late.p99_ms >= limit_ms:
            yield f"scheduling delay of {who} {milliseconds(late.p99_ms)} (p99)"
    if of.latest and of.latest.late_ms >= limit_ms:
        yield f"a fault was injected {milliseconds(of.latest.late_ms)} late"
    if of.stolen_percent >= _STOLEN_PERCENT:
        yield f"a hypervisor took {number(of.stolen_percent)} % of the processors' time"


def disturbed(seen: JudgedRun) -> tuple[str, ...]:
    machine = seen.verdict.of(disturbance.Figures)
    return tuple(disturbances(machine, seen.run.config.ttl_ms)) if machine else ()


def checkers_totals(seen: JudgedRun) -> dict[str, int]:
    return {name: number for own in seen.verdict.figures.values() for name, number in own.totals().items()}


def blamed(seen: JudgedRun) -> tuple[Blamed, ...]:
    return tuple(_blamed(each, seen.explained) for each in seen.verdict.findings if each.blame == "lock")


def _blamed(finding: Finding, explained: Sequence[Explained]) -> Blamed:
    shown = clearest_of(finding, explained)
    cause, why = (shown.cause, shown.sentence) if shown else (None, "")
    return Blamed(finding.kind, finding.at_ms, finding.text, cause, why, finding.count)
