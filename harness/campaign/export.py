"""The numbers of a campaign as tables to compute with."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pandas as pd

from harness.campaign.aggregate import UNITS, Summary
from harness.campaign.folder import RunLine
from harness.campaign.measure import quantile_ms
from harness.checkers.disturbance import Figures as Machine


def cells_frame(found: Sequence[Summary]) -> pd.DataFrame:
    """One row a cell. Rates come with both ends of their exact 95 % interval, as shares."""
    rows = []
    for s in found:
        row: dict[str, object] = {"part": s.part.title, "cell": s.cell.name, **s.cell.at}
        row |= {f"runs_{word}": s.verdicts.get(word, 0) for word in ("valid", "violation", "unknown")}
        row |= {"sections": s.sections, "node_outages": s.node_outages, "opportunities": s.opportunities}
        row |= {f"overlaps_{blame}": pairs for blame, pairs in s.overlaps.items()}
        for blame, rate in s.violated.items():
            row |= _rate(f"runs_with_overlap_{blame}", rate.events, rate.trials, rate.low, rate.high)
        for unit in UNITS:
            if unit != "run" and unit in s.per_unit:
                rate = s.per_unit[unit]
                row |= _rate(f"{UNITS[unit].replace(' ', '_')}_hit", rate.events, rate.trials, rate.low, rate.high)
        row |= {
            "acquisitions_per_s": s.per_second,
            "acquire_p50_ms": s.acquire_p50_ms,
            "acquire_p99_ms": s.acquire_p99_ms,
            "availability": s.availability,
            "majority_wait_ms_median": s.majority_wait_ms,
            "longest_gap_ms": s.longest_gap_ms,
            "fsync_p50_ms": s.fsync_p50_ms,
            "fsync_p99_ms": s.fsync_p99_ms,
            "orphans": s.orphans,
            "orphan_longest_ms": s.orphan_longest_ms,
            "overruns": s.overruns,
            "sections_without_majority": s.unfounded,
            "lost_updates": s.lost,
            "acknowledged": s.acknowledged,
            **s.totals,
            "folders": " ".join(s.folders),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def runs_frame(lines: Sequence[RunLine]) -> pd.DataFrame:
    """One row a run."""
    rows = []
    for line in lines:
        row: dict[str, object] = {
            "cell": line.cell,
            "seed": line.seed,
            "folder": line.folder,
            "verdict": line.verdict,
            "took_s": round(line.took_s, 1),
            "revision": line.revision,
            "error": line.error,
        }
        if line.figures:
            f = msgspec.structs.asdict(line.figures)
            totals, _ = f.pop("totals"), f.pop("stakes")
            acquire, overlaps, fsync = f.pop("acquire"), f.pop("overlaps"), f.pop("fsync_ms")
            waits = f.pop("majority_waits_ms")
            machine, disturbed = f.pop("machine"), f.pop("disturbed")
            row |= f | {f"overlaps_{blame}": pairs for blame, pairs in overlaps.items()}
            row |= {"acquire_p50_ms": quantile_ms(acquire, 0.5), "acquire_p99_ms": quantile_ms(acquire, 0.99)}
            row |= {f"fsync_{name}_ms": (fsync or {}).get(name) for name in ("p50", "p99")}
            row |= totals
            row |= _machine(machine) | {"disturbed": "; ".join(disturbed)}
            row |= {"majority_waits_ms": " ".join(f"{wait:.1f}" for wait in waits)}
        rows.append(row)
    return pd.DataFrame(rows)


def _machine(busy: Machine | None) -> dict[str, object]:
    """How late clients, the harness and faults were; nothing for a run that kept no beats."""
    row: dict[str, object] = {}
    for who, late in (("clients", busy and busy.clients), ("harness", busy and busy.harness)):
        row |= {f"{who}_{name}": value for name, value in (msgspec.structs.asdict(late) if late else {}).items()}
    if busy:
        row |= {"stolen_percent": busy.stolen_percent, "fault_late_ms": busy.latest and busy.latest.late_ms}
    return row


def _rate(name: str, events: int, trials: int, low: float, high: float) -> dict[str, object]:
    return {name: events, f"{name}_of": trials, f"{name}_low": low, f"{name}_high": high}
