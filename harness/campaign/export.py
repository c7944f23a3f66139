"""The numbers of a campaign as tables to compute with."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from harness.campaign.adding import columns_of
from harness.campaign.aggregate import FIGURES, Summary
from harness.campaign.folder import RunLine
from harness.campaign.statistics import Rate


def cells_frame(found: Sequence[Summary]) -> pd.DataFrame:
    """One row a cell. Rates come with both ends of their 95 % interval, as shares."""
    rows = []
    for s in found:
        row: dict[str, object] = {"part": s.part.title, "cell": s.cell.name, **s.cell.at}
        row |= {f"runs_{word}": s.verdicts.get(word, 0) for word in ("valid", "violation", "unknown")}
        for blame, rate in s.violated.items():
            row |= _rate(f"runs_with_overlap_{blame}", rate)
        for unit, name in FIGURES.items():
            if unit in s.per_unit:
                row |= _rate(f"{name}_hit", s.per_unit[unit])
        rows.append(row | columns_of(s.total) | {"folders": " ".join(s.folders)})
    return pd.DataFrame(rows)


def runs_frame(lines: Sequence[RunLine]) -> pd.DataFrame:
    """One row a run, with the columns of a cell."""
    return pd.DataFrame(
        {name: getattr(line, name) for name in ("cell", "seed", "folder", "verdict")}
        | {"took_s": round(line.took_s, 1), "revision": line.revision, "error": line.error}
        | (columns_of(line.figures) if line.figures else {})
        for line in lines
    )


def _rate(name: str, rate: Rate) -> dict[str, object]:
    counted = {name: rate.events, f"{name}_of": rate.trials, f"{name}_in_runs": rate.runs}
    return counted | {f"{name}_rate": rate.share, f"{name}_low": rate.low, f"{name}_high": rate.high}
