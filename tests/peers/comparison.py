"""The same run folder given to fencepost and to the plain judge: the two answers in one form."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from fencepost.errors import UsageError
from harness.checkers import counter, exclusion, fencing, lease_validity, orphans
from harness.checkers.judge import judge
from harness.history.recorded import Recorded
from harness.store.run_folder import RunFolder
from harness.store.tables import load_recorded
from harness.verdict import Verdict
from tests.peers import plain_judge

CONTRADICTIONS = ("unrecorded-write", "final-value", "impossible-value")
DAMAGED = {"verdict": "damaged"}
QUESTIONS = (
    "counter",
    "evidence",
    "exclusion",
    "faults",
    "fencing",
    "lease_validity",
    "liveness",
    "orphans",
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
        "not_backed": _by_blame(verdict, "unfounded-belief"),
        "orphans": {cause: number for cause, number in (by_cause or {}).items() if number},
        "orphans_total": round(((keys and keys.total_ms) or 0) * 1e6),
        "orphans_longest": round(((keys and keys.longest_ms) or 0) * 1e6),
    }


def without_floors(run: Recorded) -> Recorded:
    """The run, however little of it could be judged: these floors are not the plain judge's question."""
    off = {"least_faults": 0.0, "least_reach": 0.0, "least_sections": 0, "most_empty": 100.0, "most_starved": 100.0}
    return replace(run, config=msgspec.structs.replace(run.config, **off))


def by_the_plain_judge(folder: Path) -> dict[str, Any]:
    try:
        judged = plain_judge.judge(folder)
    except plain_judge.DamagedError:
        return DAMAGED
    found = asdict(judged)
    longest = max(found.pop("longest_ns").values(), default=0)
    found |= {"longest": longest, "contradictions": bool(judged.contradictions)}
    return found | {name: round(found.pop(f"{name}_ns")) for name in ("orphans_total", "orphans_longest")}


def _by_blame(verdict: Verdict, kind: str) -> dict[str, int]:
    return {finding.blame: finding.count for finding in verdict.findings if finding.kind == kind}
