"""The other forms of the report: Markdown to read in a repository, CSV and JSON to compute with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pandas as pd

from fencepost.markdown import block, code, escaped, joined, table
from harness.campaign import facts, headline, tables, wording
from harness.campaign.aggregate import UNITS, Summary, contrasts
from harness.campaign.folder import Campaign, RunLine
from harness.campaign.matrices import LEFT_BEHIND, Matrix, left_behind, matrices
from harness.campaign.measure import quantile_ms
from harness.checkers.disturbance import Figures as Machine
from harness.config import RunConfig


def markdown(
    campaign: Campaign, lines: Sequence[RunLine], found: Sequence[Summary], configs: Mapping[str, RunConfig]
) -> str:
    """The same story as the page, without its pictures."""
    grid = campaign.grid
    out = [f"# {escaped(grid.title)}", "", escaped(facts.machine_line(campaign.machine)), ""]
    out += _paragraphs(grid.introduction or facts.INTRODUCTION)
    out += ["## The question", "", escaped(grid.question), ""]
    if grid.headline:
        out += ["## In short", "", escaped(headline.sentences(grid.headline, found)), ""]
        pools = headline.rows(grid.headline, found)
        out += [*table(("", "two clients inside"), [(label, wording.counted(rate)) for label, _, rate in pools]), ""]
    out += ["## What was done", ""]
    out += _paragraphs(facts.done(campaign, lines, configs))
    out += ["## The answer", ""]
    for part in grid.parts:
        some = [s for s in found if s.part == part]
        out += [f"### {escaped(part.title)}", "", *_paragraphs([part.text] if part.text else [])]
        out += _paragraphs([" ".join(facts.answer(part, some))])
        out += _in_tables(matrices(part, some))
        if left := _in_tables(left_behind(part, some)):
            out += [f"What stayed behind: {LEFT_BEHIND}:", ""]
            out += left
        compared = contrasts(part, some)
        # Those that the grid asks for; the page has the others, too, folded away.
        if shown := [c for c in compared if not c.axis] or compared:
            out += ["Comparisons:", "", *table(tables.HEADS[part.kind], [tables.comparison(c) for c in shown]), ""]
    out += ["## Every configuration", "", *table(tables.FIGURES, [tables.figures_row(s) for s in found]), ""]
    for summary in found:
        out += [f"### {escaped(summary.cell.name)}", "", *table(("", ""), tables.details(summary)), ""]
        out += [*block(facts.command(grid, summary.cell.name)), ""]
        out += [f"Runs: {', '.join(map(code, summary.folders)) or 'none yet'}", ""]
    return "\n".join([*out, "## Do it again", "", *block(campaign.command), ""])


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


def document(campaign: Campaign, lines: Sequence[RunLine], found: Sequence[Summary]) -> bytes:
    """`report.json`: the campaign, every cell and every comparison, with the folders and the commands."""
    grid = campaign.grid
    cells = []
    for row, s in zip(cells_frame(found).astype(object).to_dict("records"), found, strict=True):
        plain = {str(name): None if pd.isna(value) else value for name, value in row.items()}
        cells.append(plain | {"folders": s.folders, "command": facts.command(grid, s.cell.name)})
    compared = [
        {
            "part": c.part.title,
            "first": c.first.name,
            "second": c.second.name,
            "axis": c.axis,
            "unit": c.unit,
            "difference": c.difference,
            "p_holm": c.p_holm,
            "p_paired": c.p_paired,
            "speed": c.speed,
        }
        for part in grid.parts
        for c in contrasts(part, [s for s in found if s.part == part])
    ]
    value = {
        "schema_version": 1,
        "campaign": campaign,
        "finished": sum(line.error is None for line in lines),
        "cells": cells,
        "comparisons": compared,
    }
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


def _rate(name: str, events: int, trials: int, low: float, high: float) -> dict[str, object]:
    return {name: events, f"{name}_of": trials, f"{name}_low": low, f"{name}_high": high}


def _paragraphs(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in (escaped(text), "")]


def _in_tables(each: Iterable[Matrix]) -> list[str]:
    out = []
    for matrix in each:
        if matrix.title:
            out += [f"**{escaped(matrix.title)}**", ""]
        rows = [[name, *(joined([box.value, box.note]) if box else "" for box in boxes)] for name, boxes in matrix.rows]
        out += [*table([matrix.corner, *matrix.columns], rows), ""]
    return out
