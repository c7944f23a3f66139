"""Runs made up for the reports: ten clients, thirty seconds, faults, and as many overlaps as a test asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from fencepost.history import FaultEvent, Timeline
from harness.checkers import counter, exclusion, faults, fencing, liveness, phases
from harness.config import RunConfig
from harness.figures import CheckerFigures
from harness.history.overlaps import BLAMES
from harness.history.recorded import Recorded
from harness.verdict import Finding, Verdict

MS = 1_000_000
START_NS = 5_000_000_000_000
OP_COLUMNS = ["client", "life", "f", "outcome", "key", "section", "invoke_ns", "complete_ns", "error"]
SECTION_COLUMNS = [
    "client",
    "life",
    "section",
    "key",
    "asked_ns",
    "start_ns",
    "end_ns",
    "ended",
    "deadline_min_ns",
    "deadline_max_ns",
    "validity_ms",
    "requested_ns",
    "token",
    "token_source",
    "extensions",
]

ENVIRONMENT: dict[str, object] = {
    "fencepost": "0.1.0",
    "python": "3.11.2",
    "kernel": "6.18.0",
    "cores": 2,
    "cluster": {
        "backend": "docker",
        "server": {"name": "redis", "version": "7.0.15", "image": "fencepost/redis", "origin": "built-from-host"},
        "resource_server": {"name": "redis", "version": "7.0.15", "image": "fencepost/redis"},
        "toxiproxy": {"version": "2.12.0"},
    },
    "lock": {"library": "redlock-ng 2.0.4", "redis": "6.4.0"},
    "proxy_overhead_us": {"added_p50": 61.2, "added_p99": 140.9, "direct_p50": 48.1, "through_p50": 109.3},
    "servers": {"n1": {"appendonly": "no", "maxmemory": "0"}},
}


@dataclass
class Made:
    """A run, its verdict and its environment."""

    recorded: Recorded
    verdict: Verdict
    environment: dict[str, object] = field(default_factory=lambda: dict(ENVIRONMENT))


def make_run(
    *,
    seconds: float = 30.0,
    seed: int = 7,
    hold_ms: tuple[float, float] = (2, 20),
    rest_ms: tuple[float, float] = (3, 9),
    lock_overlaps: int = 0,
    client_overlaps: int = 0,
    undecided_overlaps: int = 0,
    faults: bool = True,
    **config: Any,
) -> Made:
    """A run with one key and sections one after the other, except for the overlaps asked for."""
    rng = Random(seed)
    settings = RunConfig(seed=seed, duration_ms=seconds * 1000, **config)
    events = fault_events(rng, settings, seconds) if faults else ()
    rows: list[dict[str, Any]] = []
    free = dict.fromkeys(settings.client_names, START_NS)
    numbers = dict.fromkeys(settings.client_names, 0)
    at = START_NS + 12 * MS
    stop = START_NS + int((seconds + 3) * 1e9)
    heal = START_NS + int(seconds * 1e9)

    def section(client: str, start: int, end: int, valid_ms: float = 980, slack_ms: float = 0) -> None:
        numbers[client] += 1
        rows.append(
            {
                "client": client,
                "life": 1,
                "section": numbers[client],
                "key": "k1",
                "asked_ns": free[client],
                "start_ns": start,
                "end_ns": end,
                "ended": "release",
                "deadline_min_ns": start + int(valid_ms * MS),
                "deadline_max_ns": start + int((valid_ms + slack_ms) * MS),
                "validity_ms": valid_ms,
                "requested_ns": start - MS,
                "token": len(rows) + 1,
                "token_source": "resource",
                "extensions": 0,
            }
        )
        free[client] = end + MS

    wanted = ["lock"] * lock_overlaps + ["client"] * client_overlaps + ["undecided"] * undecided_overlaps
    rng.shuffle(wanted)
    turn = 0
    while at < stop:
        turn += 1
        client = rng.choice([c for c in settings.client_names if free[c] <= at] or list(settings.client_names))
        at = max(at, free[client])
        end = at + int(rng.uniform(*hold_ms) * MS)
        if wanted and turn % 97 == 60:
            kind = wanted.pop()
            other = rng.choice([c for c in settings.client_names if c != client and free[c] <= at])
            end = at + int((60 if kind == "lock" else 1100) * MS)
            section(client, at, end, 980, 100 if kind == "undecided" else 0)
            late = {"lock": at + 20 * MS, "client": at + 1040 * MS, "undecided": at + 1030 * MS}[kind]
            at = late + 30 * MS
            section(other, late, at)
            at = max(at, end)
        else:
            section(client, at, end)
            at = end
        pause = rng.uniform(*rest_ms) + (rng.expovariate(1 / 120) if rng.random() < 0.02 else 0)
        at += int(pause * MS)
    frame = pd.DataFrame(rows, columns=SECTION_COLUMNS)
    recorded = Recorded(
        config=settings,
        timeline=Timeline(START_NS, heal, stop, stop + 40 * MS),
        ops=operations(frame, rng),
        sections=frame,
        writes=pd.DataFrame({"key": [], "index": [], "client": [], "section": [], "value": [], "token": []}),
        faults=events,
        ends=(),
        planned_faults=len(events) // 2,
        final_values={"k1": len(frame)},
    )
    overlaps = {"lock": lock_overlaps, "client": client_overlaps, "undecided": undecided_overlaps}
    return Made(recorded, verdict(recorded, overlaps))


def operations(sections: pd.DataFrame, rng: Random) -> pd.DataFrame:
    """A granted acquire a section, and a refused one before most of them."""
    rows = []
    for s in sections.itertuples():
        took = int(rng.lognormvariate(0.6, 0.6) * MS)
        base = (s.client, 1, "acquire")
        if rng.random() < 0.7:
            rows.append((*base, "fail", s.key, s.section, s.asked_ns, s.asked_ns + 2 * MS, "refused by a majority"))
        rows.append((*base, "ok", s.key, s.section, s.start_ns - took, s.start_ns, None))
    return pd.DataFrame(rows, columns=OP_COLUMNS)


def fault_events(rng: Random, config: RunConfig, seconds: float) -> tuple[FaultEvent, ...]:
    """Partitions, pauses and a crash, one after the other, with some of them at the same time."""
    events: list[FaultEvent] = []
    at_s, number = 1.0, 0
    while at_s < seconds - 3:
        number += 1
        length = rng.uniform(1.0, 3.0)
        nodes = tuple(rng.sample(config.node_names, 2))
        clients = tuple(rng.sample(config.client_names, 4))
        links = tuple((c, n) for c in clients for n in nodes)
        kind = ("partition", "latency", "pause", "crash")[number % 4] if number > 2 else "partition"
        hit: dict[str, Any] = {
            "partition": {"cut_links": links, "what": f"drop both ways: {','.join(clients)} | {','.join(nodes)}"},
            "latency": {"slow_links": links, "what": f"300 ± 50 ms: {','.join(clients)} | {','.join(nodes)}"},
            "pause": {"paused_clients": clients[:1], "what": f"pause {clients[0]} while it is inside"},
            "crash": {"nodes": nodes[:1], "what": f"SIGKILL {nodes[0]}, back after 1 s"},
        }[kind]
        begin = START_NS + int(at_s * 1e9)
        end = begin + int(length * 1e9)
        common = {"fault": f"f{number}", "nemesis": kind, **hit}
        events.append(
            FaultEvent(
                "injected", began_ns=begin, done_ns=begin + 3 * MS, holds=True, seen="8 of 8 links silent", **common
            )
        )
        events.append(
            FaultEvent("healed", began_ns=end, done_ns=end + 4 * MS, holds=True, seen="8 of 8 links answer", **common)
        )
        at_s += rng.uniform(0.7, 1.2) * length + 0.4
    return tuple(events)


def verdict(run: Recorded, overlaps: Mapping[str, int]) -> Verdict:
    sections = run.sections
    waits = ((sections["start_ns"] - sections["asked_ns"]) / MS).to_numpy()
    p50, p90, p99 = (float(v) for v in np.quantile(waits, [0.5, 0.9, 0.99]))
    first = sections.iloc[0]
    side = {"client": "c1", "life": 1, "section": 4, "start_ms": 1200.0, "end_ms": 1274.5, "ended": "release"}
    findings = tuple(
        Finding(
            "overlap",
            blame,  # type: ignore[arg-type]
            f"{n} pairs of clients were in the critical section at once, and {because}",
            count=n,
            promise="exclusion",
            examples=({"key": "k1", "at_ms": 1234.5, "overlap_ms": 40.0, "earlier": side, "later": side},) * min(n, 3),
        )
        for blame, because in (
            ("lock", "both were within their validity"),
            ("client", "one had outlived its lease"),
            ("undecided", "the record allows both readings"),
        )
        if (n := overlaps[blame])
    )
    planned = run.planned_faults
    phase = phases.Phase(
        seconds=30.0,
        sections=len(sections),
        sections_per_s=len(sections) / 33,
        acquire_ok=len(sections),
        acquire_fail=900,
        acquire_info=12,
        acquire_ms_p50=1.9,
        acquire_ms_p99=7.7,
        errors={"TimeoutError: n3 did not answer": 12},
    )
    calm = msgspec.structs.replace(phase, seconds=3.0, sections=0, sections_per_s=0.0, errors={})
    names = sorted({e.nemesis for e in run.faults})
    figures: dict[str, CheckerFigures] = {
        "exclusion": exclusion.Figures(
            sections=len(sections),
            overlaps={blame: overlaps[blame] for blame in BLAMES},
            overlapping_pairs=sum(overlaps.values()),
            longest_overlap_ms=60.0 if any(overlaps.values()) else 0.0,
        ),
        "counter": counter.Figures(
            acknowledged=len(sections),
            accepted=len(sections),
            lost=overlaps["client"] + overlaps["lock"],
            lost_unacknowledged=0,
            final={"k1": len(sections)},
            complete=True,
        ),
        "fencing": fencing.Figures(
            mode="none",
            token_source="none",
            stale_writes_accepted=0,
            stale_writes_rejected=0,
            stale_reads_rejected=0,
            tokens_not_increasing=0,
        ),
        "liveness": liveness.Figures(
            wait_ms=liveness.Spread(len(waits), p50, p90, p99, float(waits.max())),
            longest_gap_ms=812.0,
            longest_gap_at_ms=12_034.0,
            longest_ungranted_ms=1_812.0,
            longest_ungranted_at_ms=11_034.0,
            recovery_first_ms=14.2,
            recovery_all_ms=431.0,
            never_acquired=(),
            jain=0.986,
            acquires_longer_than_ttl=0,
            late_grants=0,
        ),
        "faults": faults.Figures(
            planned=planned,
            injected=planned,
            observed=planned,
            healed=planned,
            by_nemesis={name: faults.OfNemesis(2, 2, 2) for name in names},
        ),
        "phases": phases.Figures(calm=calm, faults=phase),
    }
    assert first["start_ns"] > run.timeline.start_ns
    broken = "violation" if overlaps["lock"] else "valid"
    return Verdict(broken, "lock", findings, (), figures)  # type: ignore[arg-type]


def make_empty_run(reasons: Sequence[str] = ("no client acquired the lock", "no planned fault was observed")) -> Made:
    """A run that crashed before anybody acquired anything: no end, no sections, hardly any figures."""
    full = make_run(seconds=0.5, faults=False)
    recorded = replace(
        full.recorded,
        timeline=Timeline(START_NS, interrupted=True),
        ops=full.recorded.ops.iloc[0:0],
        sections=full.recorded.sections.iloc[0:0],
        planned_faults=6,
        final_values=None,
    )
    nothing: dict[str, CheckerFigures] = {"faults": faults.Figures(6, 0, 0, 0, {})}
    return Made(recorded, Verdict("unknown", "lock", (), tuple(reasons), nothing), {})
