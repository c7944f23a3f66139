"""`index.html` of a campaign: one file that explains itself to somebody who never saw the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from fencepost.text import count, plural, printable, printable_lines
from harness.campaign import facts, headline, plots, tables
from harness.campaign.aggregate import Contrast, Summary, contrasts
from harness.campaign.folder import Campaign, RunLine
from harness.campaign.grid import Part
from harness.campaign.matrices import left_behind, matrices
from harness.config import RunConfig
from harness.report.html import render, script_json

_MOST_PANELS = 12


def render_page(
    campaign: Campaign,
    lines: Sequence[RunLine],
    found: Sequence[Summary],
    configs: Mapping[str, RunConfig],
    moments: Mapping[str, Mapping[str, Any]],
) -> str:
    """The page as one string of HTML. `moments`: a moment of a violation for each cell that has one."""
    grid = campaign.grid
    by_part = [(part, [s for s in found if s.part is part or s.part == part]) for part in grid.parts]
    finished = sum(line.error is None for line in lines)
    shown = [(name, moments[name]) for name in grid.cells if name in moments]
    return render(
        "compare.html.j2",
        title=printable(grid.title),
        facts=[
            f"{count(finished)} of {plural(grid.run_count, 'run')}",
            plural(len(grid.cells), "configuration"),
            facts.machine_line(campaign.machine),
            f"revision {campaign.revision or 'unknown'}",
        ],
        complete=finished == grid.run_count,
        introduction=grid.introduction or facts.INTRODUCTION,
        question=grid.question,
        headline=printable(headline.sentences(grid.headline, found)) if grid.headline else None,
        picture=plots.rates(rows) if grid.headline and (rows := headline.rows(grid.headline, found)) else None,
        done=facts.done(campaign, lines, configs),
        parts=[_part(part, some) for part, some in by_part],
        moments=[
            {
                "id": f"moment{n}",
                "cell": printable(name),
                "show": moment["show"],
                "text": printable(moment["text"]),
                "from_s": f"{moment['from_s']:.1f}",
                "folder": printable(moment["folder"]),
                "data": script_json(moment["data"]),
            }
            for n, (name, moment) in enumerate(shown)
        ],
        cells=[
            {
                "name": printable(s.cell.name),
                "rows": tables.details(s),
                "command": printable(facts.command(grid, s.cell.name)),
                "seeds": s.part.seeds,
                "first_seed": grid.first_seed,
                "folders": [printable(f) for f in s.folders],
                "broke_off": [printable(f) for f in s.broke_off],
            }
            for s in found
        ],
        command=printable_lines(campaign.command),
    )


def _part(part: Part, found: list[Summary]) -> dict[str, Any]:
    compared = contrasts(part, found)
    numeric = next((a for a in part.axes if part.numbers(a)), None)
    axes = list(part.axes)
    return {
        "title": printable(part.title),
        "text": printable(part.text),
        "kind": part.kind,
        "answer": facts.answer(part, found),
        "matrices": list(matrices(part, found)),
        "left_behind": list(left_behind(part, found)),
        "rates": plots.rates([(s.cell.name, *s.main_rate) for s in found])
        if part.kind == "safety" and any(s.verdicts for s in found)
        else None,
        "legend": plots.legend(part.axes[axes[0]]) if axes else None,
        "throughput": _panels(part, found, numeric) if numeric and numeric != axes[0] else [],
        "numeric": numeric,
        "latencies": _panels(part, found, None) if axes else [],
        "figures": [tables.figures_row(s) for s in found],
        "figure_heads": tables.FIGURES,
        "heads": tables.HEADS[part.kind],
        "asked": _rows([c for c in compared if not c.axis]),
        "contrasts": _rows([c for c in compared if c.axis]),
    }


def _rows(compared: Sequence[Contrast]) -> list[list[str]]:
    return [[printable(text) for text in tables.comparison(contrast)] for contrast in compared]


def _panels(part: Part, found: Sequence[Summary], against: str | None) -> list[dict[str, Any]]:
    """A small picture for each combination of the axes that are neither the series (the first axis) nor `against`."""
    axes = part.axes
    series_axis = next(iter(axes))
    rest = [axis for axis in axes if axis not in (series_axis, against)]
    panels = []
    for picked in product(*(axes[axis] for axis in rest)):
        some = [s for s in found if all(s.cell.at.get(a) == v for a, v in zip(rest, picked, strict=True))]
        series = [(value, [s for s in some if s.cell.at.get(series_axis) == value]) for value in axes[series_axis]]
        label = " · ".join(picked)
        if against is None:
            picture = plots.latencies(series, "Share of granted acquire calls by duration")
        else:
            picture = plots.against(series, against, part.numbers(against), "Acquisitions per second")
        if picture:
            panels.append({"title": printable(label), "picture": picture})
    return panels[:_MOST_PANELS]
