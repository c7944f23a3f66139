"""The same run folder given to fencepost and to the plain judge: the two answers in one form."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from fencepost.errors import UsageError
from harness.checkers import counter, exclusion, fencing, lease_validity, ledger, orphans, ownership
from harness.checkers.judge import judge
from harness.explain import kinds
from harness.history.recorded import Recorded
from harness.store.run_folder import RunFolder
from harness.store.tables import load_recorded
from harness.verdict import Verdict
from tests.judge.histories import History
from tests.peers import plain_judge
from tests.peers.plain_judge.folder import Folder

CONTRADICTIONS = ("unrecorded-write", "wrong-final-value", "impossible-value")
DAMAGED = {"verdict": "damaged"}
QUESTIONS = (
    "counter",
    "evidence",
    "exclusion",
    "faults",
    "fencing",
    "lease_validity",
    "ledger",
    "liveness",
    "orphans",
    "ownership",
    "quorum_backing",
)
"""The checkers that the plain judge has a counterpart of."""


def whole_verdict(folder: Path) -> Verdict | str:
    """What fencepost says of a folder, with everything that it found; why it refuses one that is damaged."""
    try:
        return judge(load_recorded(RunFolder.open(folder)))
    except UsageError as error:
        return str(error)


def by_the_product(folder: Path) -> dict[str, Any]:
    try:
        recorded = load_recorded(RunFolder.open(folder))
    except UsageError:
        return DAMAGED
    return in_one_form(recorded)


def in_one_form(recorded: Recorded) -> dict[str, Any]:
    verdict = judge(without_floors(recorded), QUESTIONS)
    overlaps, costs = verdict.of(exclusion.Figures), verdict.of(counter.Figures)
    fences, leases = verdict.of(fencing.Figures), verdict.of(lease_validity.Figures)
    assert overlaps is not None
    assert costs is not None
    assert fences is not None
    assert leases is not None
    keys = verdict.of(orphans.Figures)
    by_cause = keys.by_cause if keys else None
    lost = _by_blame(verdict, "lost-update")
    return {
        "verdict": verdict.verdict,
        "sections": overlaps.sections,
        "overlaps": {blame: number for blame, number in overlaps.overlaps.items() if number},
        "longest": round(overlaps.longest_overlap_ms * 1e6),
        "lost": lost,
        "lost_unacknowledged": costs.lost_unacknowledged,
        "stale_accepted": _by_blame(verdict, "stale-write-accepted"),
        "tokens_not_increasing": fences.tokens_not_increasing,
        "contradictions": "harness" in lost or any(finding.kind in CONTRADICTIONS for finding in verdict.findings),
        "overstated": leases.overstated,
        "without_validity": leases.without_validity,
        "late_extensions": leases.late_extensions,
        "not_backed": _by_blame(verdict, "lease-without-majority"),
        "orphans": {cause: number for cause, number in (by_cause or {}).items() if number},
        "orphans_total": round(((keys and keys.total_ms) or 0) * 1e6),
        "orphans_longest": round(((keys and keys.longest_ms) or 0) * 1e6),
    } | of_the_ledger(recorded)


def of_the_ledger(recorded: Recorded) -> dict[str, Any]:
    changes = ledger.check(recorded).figures
    assert changes is None or isinstance(changes, ledger.Figures)
    return {
        "changes": (changes and changes.changes) or 0,
        "changes_without_request": changes.without if changes else 0,
        "anothers_keys": _touched(recorded),
    }


def _touched(run: Recorded) -> dict[str, list[tuple[str, ...]]]:
    """What each finding about keys of other clients shows, and not only its first examples."""
    with mock.patch.object(kinds, "_SHOWN", 10**9):
        findings = ownership.check(run).findings
    return {str(finding.breaks): sorted(map(_example, finding.examples)) for finding in findings}


def _example(touched: dict[str, Any]) -> tuple[str, ...]:
    """Which task of a process sent a request is not on record."""
    by, of = (touched[name].partition("@")[0] for name in ("by", "of"))
    return touched["node"], touched["key"], touched["how"], by, of


def without_floors(run: Recorded) -> Recorded:
    """The run, however little of it could be judged: these floors are not the plain judge's question."""
    off = {"least_faults": 0.0, "least_reach": 0.0, "least_sections": 0, "most_empty": 100.0, "most_starved": 100.0}
    return replace(run, config=msgspec.structs.replace(run.config, **off))


def by_the_plain_judge(folder: Path) -> dict[str, Any]:
    try:
        return plainly(plain_judge.judge(folder))
    except plain_judge.DamagedError:
        return DAMAGED


def plainly(judged: plain_judge.Judgement) -> dict[str, Any]:
    found = asdict(judged)
    longest = max(found.pop("longest_ns").values(), default=0)
    found |= {"longest": longest, "contradictions": bool(judged.contradictions)}
    return found | {name: round(found.pop(f"{name}_ns")) for name in ("orphans_total", "orphans_longest")}


def _by_blame(verdict: Verdict, kind: str) -> dict[str, int]:
    return {finding.blame: finding.count for finding in verdict.findings if finding.kind == kind}


def as_read(history: History) -> Folder:
    """What the plain judge would read of a run that left this history."""
    recorded, wire = history.recorded(), history.wire_record()
    return Folder(
        config=msgspec.to_builtins(history.config),
        ops={life: [msgspec.to_builtins(op) for op in ops] for life, ops in history.ops.items()},
        held={},
        gaps={},
        ends={(end.client, end.life): msgspec.to_builtins(end) for end in history.ends},
        faults=[msgspec.to_builtins(fault) for fault in history.faults],
        writes=[msgspec.to_builtins(write) for write in history.writes],
        nodes=[msgspec.to_builtins(event) for event in history.key_events],
        timeline=msgspec.to_builtins(history.timeline),
        final=recorded.final_values,
        planned_faults=history.planned,
        requests=[] if wire is None else wire.requests.to_pylist(),
        connections=[] if wire is None else wire.connections.to_pylist(),
        are_links_recorded=wire is not None,
        partly_recorded=frozenset(history.not_recorded),
    )
