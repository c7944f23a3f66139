"""The verdict's word: "The verdict" and "Promises"."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.peers.plain_judge.counter import cost
from tests.peers.plain_judge.damage import broke_off
from tests.peers.plain_judge.folder import Folder, read
from tests.peers.plain_judge.holdings import NodesRecord, nodes_record
from tests.peers.plain_judge.keys import harmful_extensions, not_backed, orphans
from tests.peers.plain_judge.ledger import ledger
from tests.peers.plain_judge.owners import anothers_keys
from tests.peers.plain_judge.sections import Lease, Section, blame, overlaps, sections_of

ROUNDING_NS = 1_000_000


@dataclass(frozen=True)
class Judgement:
    """`longest_ns`: the longest overlap, by blame. `orphans`: how many, by cause."""

    verdict: str
    sections: int
    overlaps: dict[str, int]
    longest_ns: dict[str, float]
    lost: dict[str, int]
    lost_unacknowledged: int
    stale_accepted: dict[str, int]
    tokens_not_increasing: int
    contradictions: list[str]
    overstated: int
    without_validity: int
    late_extensions: int
    not_backed: dict[str, int]
    orphans: dict[str, int]
    orphans_total_ns: float
    orphans_longest_ns: float
    changes: int
    changes_without_request: int
    anothers_keys: dict[str, list[tuple[str, str, str, str, str]]]
    """By what they break: the node, the key, how it was changed, by whom, and whose it was."""


def judge(path: Path) -> Judgement:
    """Raises DamagedError."""
    folder = read(path)
    return judge_record(folder, broke_off(path, folder))


def judge_record(folder: Folder, did_not_end: bool = False) -> Judgement:
    sections = sections_of(folder)
    pairs = overlaps(sections)
    longest: dict[str, float] = {}
    for a, b in pairs:
        by = blame(a, b)
        spans = {"lock": (a.certain, b.certain), "undecided": (a.possible, b.possible)}
        until = [span[1] for span in spans.get(by, ((a.start, a.end), (b.start, b.end)))]
        longest[by] = max(longest.get(by, 0), min(until) - max(a.start, b.start))
    costs = cost(folder, sections)
    leases = [lease for section in sections for lease in section.leases]
    # Without a record of the links it is not known whose the keys were.
    changes = ledger(folder) if folder.are_links_recorded else []
    record = (
        nodes_record(folder, sections, changes) if folder.are_links_recorded else NodesRecord([], {}, {}, [], {}, [])
    )
    found = orphans(folder, sections, record)
    touched = anothers_keys(folder, sections, changes)
    backed = not_backed(sections, record)
    by_blame = Counter(blame(a, b) for a, b in pairs)
    overstated = sum(_overstated(lease, folder.config["ttl_ms"]) for lease in leases)
    without_validity = sum(lease.validity_ms is not None and lease.validity_ms <= 0 for lease in leases)
    late = sum(len(section.late_at) for section in sections)
    broken = {
        "lease": by_blame["lock"]
        or overstated
        or without_validity
        or harmful_extensions(sections, record)
        or any(one.breaks == "lease" for one in touched)
        or backed["lock"],
        "exclusion": pairs,
        "data": costs.lost or costs.stale_accepted or costs.tokens_not_increasing,
    }[folder.config["require"]]
    return Judgement(
        verdict="violation"
        if broken or costs.contradictions
        else _otherwise(folder, sections, bool(costs.lost), did_not_end),
        sections=len(sections),
        overlaps=dict(by_blame),
        longest_ns=longest,
        lost=dict(costs.lost),
        lost_unacknowledged=costs.lost_unacknowledged,
        stale_accepted=dict(costs.stale_accepted),
        tokens_not_increasing=costs.tokens_not_increasing,
        contradictions=costs.contradictions,
        overstated=overstated,
        without_validity=without_validity,
        late_extensions=late,
        not_backed=dict(backed),
        orphans=dict(Counter(orphan.cause for orphan in found)),
        orphans_total_ns=sum(orphan.for_ns for orphan in found),
        orphans_longest_ns=max((orphan.for_ns for orphan in found), default=0),
        changes=len(changes),
        changes_without_request=sum(not change.is_recorded for change in changes),
        anothers_keys={
            breaks: sorted((one.node, one.key, one.how, one.by, one.of) for one in touched if one.breaks == breaks)
            for breaks in sorted({one.breaks for one in touched})
        },
    )


def _overstated(lease: Lease, ttl_ms: int) -> bool:
    if lease.told_at_return:
        return False
    granted_ns = int((lease.granted_ms or ttl_ms) * 1e6)
    too_long_ns = [(lease.validity_ms or 0) * 1e6 - granted_ns]
    if lease.requested_ns is not None:
        too_long_ns.append(lease.deadline[0] - lease.requested_ns - granted_ns)
    return max(too_long_ns) >= ROUNDING_NS


def _otherwise(folder: Folder, sections: list[Section], lost: bool, did_not_end: bool) -> str:
    observed = any(f["event"] == "injected" and f["holds"] and not f.get("unplanned") for f in folder.faults)
    timeline = folder.timeline
    doubts = [
        did_not_end,
        not sections,
        folder.planned_faults > 0 and not observed,
        folder.final is None and not lost,
        timeline is None or timeline.get("interrupted", False) or timeline.get("end_ns") is None,
        timeline is not None and timeline.get("healed_ns") is None,
    ]
    return "unknown" if any(doubts) else "valid"
