"""`fencepost compare` as a study, and its report: it explains itself to a reader who never saw the project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec
import pandas as pd

from fencepost.text import count, plural, printable
from harness.campaign import export, facts, headline, plots, tables, wording
from harness.campaign.aggregate import Contrast, Summary, contrasts, summaries
from harness.campaign.document import (
    LOOK_INTO,
    Block,
    CommandLine,
    DataTable,
    Folded,
    Heading,
    Paragraph,
    RunTimeline,
    StillPicture,
    StillPictures,
    Strong,
    StudyDocument,
    folders,
    paragraphs,
)
from harness.campaign.grid import Grid, Part
from harness.campaign.matrices import left_behind, matrices
from harness.campaign.study import Played, Study
from harness.config import REPORTS

_MOST_PANELS: Final = 12
_UNFINISHED: Final = "This campaign is not finished: what follows is drawn from the runs that are there."
_WHISKERS: Final = "The dot is what was seen, the whisker the 95 % interval."
_FIELDS: Final = (
    "Each field: violations blamed on the lock, of how many, and the rate with its 95 % interval. Where none was seen, "
    f"the upper end of the interval stands: one may still happen. {wording.METHOD}"
)
_LEFT_FIELDS: Final = (
    "Each field: keys left on a server without an owner, and the longest time; then, where there were any, acquire "
    "calls that took longer than allowed, and sections not backed by a majority of the servers."
)
_TESTS: Final = (
    "Difference: the second rate minus the first in percentage points, with Zou and Donner's interval. p: how often "
    "the runs' own rates would be at least so far apart if the runs were dealt to the two configurations at random (a "
    "permutation test; Fisher's exact test where a run is one trial). By seed: the same if the two runs of each seed "
    "were swapped at random (McNemar's exact test where a run is one trial). Holm: adjusted for the number of all "
    "these tests."
)
_SPEEDS: Final = (
    "Acquisitions/s: how many times those of the first, seed by seed: the geometric mean, the lowest and the highest."
)
_HOW_TO_READ: Final = (
    (
        Strong("Violation."),
        " Two clients were inside at once and each still held a valid lease, in every reading "
        "of the record: the lock is to blame. Overlaps for which a client is to blame (it outlived its lease), or for "
        "which both readings are possible, are counted apart, with every configuration.",
    ),
    (
        Strong("Node outage."),
        " A time at which one or more servers went down with what they had in memory. ",
        Strong("Opportunity."),
        " A node outage that took a key's majority away: a majority of the servers held the key right before it, and "
        "only a minority did afterwards. A node outage or opportunity counts as hit if a second client was let in "
        "after it while a first one held the lock, by the lock's fault; several overlaps count once.",
    ),
    (
        Strong("Rate."),
        " The mean of the runs' own rates. That of a run is the share of its opportunities (or node outages) that were "
        "hit; where neither was counted, it is 1 with a violation and 0 without. A run without an opportunity counts "
        "in no rate of opportunities, and a run whose verdict is unknown in no rate at all.",
    ),
    (
        Strong("Availability."),
        " The share of the load's time in which at least one working client surely could reach a majority of the "
        "servers, and so could have acquired. ",
        Strong("Wait after a majority went down."),
        " From the outage to the next grant. ",
        Strong("Longest gap."),
        " The longest time without any grant although a majority was in reach.",
    ),
    (
        Strong("Acquisitions a second"),
        " and acquire calls are those of the load, before everything is healed. Durations are kept in classes of "
        "2.3 %.",
    ),
)


def comparison(grid: Grid, report: Path | None, *, yes: bool) -> Study[Sequence[Summary]]:
    """`fencepost compare` as a study. Exit code 0: all runs are finished; 2: not."""
    return Study(
        grid=grid,
        place=report or REPORTS / grid.name,
        settle=lambda played: summaries(played.campaign.grid, played.lines),
        document=document_of,
        yes=yes,
    )


def document_of(played: Played, found: Sequence[Summary]) -> StudyDocument:
    campaign, lines, configs = played.campaign, played.lines, played.configs
    grid = campaign.grid
    finished = sum(line.error is None for line in lines)
    return played.document(
        facts=[f"{count(finished)} of {plural(grid.run_count, 'run')}", plural(len(grid.cells), "configuration")],
        blocks=[
            Paragraph(grid.question, "lead"),
            *_in_short(played, found),
            *paragraphs([_UNFINISHED] if finished < grid.run_count else [], "notice"),
            Heading("The answer"),
            *(block for part in grid.parts for block in _part(part, [s for s in found if s.part == part])),
            *_moments(played),
            Heading("Background"),
            *paragraphs(grid.introduction or facts.INTRODUCTION),
            Heading("How it was tested"),
            *paragraphs(facts.done(campaign, lines, configs)),
            Heading("Every configuration"),
            Paragraph(
                "With the folders of its runs and the command that makes its first run again; the other runs have the "
                "seeds that follow.",
                "hint",
            ),
            *(_configuration(played, summary) for summary in found),
            Heading("How to read this"),
            *map(Paragraph, _HOW_TO_READ),
        ],
        numbers={
            "campaign": campaign,
            "cells": _cells(played, found),
            "comparisons": [
                msgspec.to_builtins(_plain(c))
                for part in grid.parts
                for c in contrasts(part, [s for s in found if s.part == part])
            ],
        },
        tables={"cells": export.cells_frame(found), "runs": export.runs_frame(lines)},
    )


def _in_short(played: Played, found: Sequence[Summary]) -> Iterator[Block]:
    if (says := played.campaign.grid.headline) is None:
        return
    yield Heading("In short")
    yield Paragraph(headline.sentences(says, found), "lead")
    if rows := headline.rows(says, found):
        yield StillPicture(plots.rates(rows), f"Two clients inside at once by the lock's fault. {_WHISKERS}")
        counted = [(label, wording.counted(rate)) for label, _, rate in rows]
        yield DataTable(("", "two clients inside"), counted, "pairs")
        yield Paragraph(wording.METHOD, "hint")


def _part(part: Part, found: list[Summary]) -> Iterator[Block]:
    compared = contrasts(part, found)
    asked, others = [c for c in compared if not c.axis], [c for c in compared if c.axis]
    is_safety = part.kind == "safety"
    yield Heading(part.title, 3)
    yield from paragraphs([part.text] if part.text else [])
    yield from paragraphs(facts.answer(part, found), "says")
    yield from matrices(part, found)
    if is_safety:
        yield Paragraph(_FIELDS, "hint")
    if left := list(left_behind(part, found)):
        yield Heading("Orphaned keys, slow acquires", 4)
        yield from left
        yield Paragraph(_LEFT_FIELDS, "hint")
    if asked:
        yield Heading("Compare", 4)
        yield from _comparisons(part, asked)
    if is_safety and any(s.verdicts for s in found):
        yield StillPicture(
            plots.rates([(s.cell.name, *s.main_rate) for s in found]), f"Rates of violations. {_WHISKERS}"
        )
    yield from _pictures(part, found)
    yield Folded(f"All figures of these {len(found)} configurations", [tables.figures_of(found)])
    if others:
        title = f"{len(others)} comparisons between configurations that differ in one thing"
        yield Folded(title, list(_comparisons(part, others)), page_only=bool(asked))


def _comparisons(part: Part, compared: Sequence[Contrast]) -> Iterator[Block]:
    yield DataTable(tables.HEADS[part.kind], [tables.comparison(contrast) for contrast in compared], "comparisons")
    for hint in [_TESTS, _SPEEDS] if part.kind == "safety" else [_SPEEDS]:
        yield Paragraph(hint, "hint")


def _pictures(part: Part, found: Sequence[Summary]) -> Iterator[Block]:
    axes = list(part.axes)
    if not axes:
        return
    legend = plots.legend(part.axes[axes[0]])
    numeric = next((a for a in axes if part.numbers(a)), None)
    if numeric and numeric != axes[0] and (panels := _panels(part, found, numeric)):
        yield Heading(f"Acquisitions a second against {numeric}", 4)
        yield StillPictures(legend, panels, "The line joins the means, each dot is one run.")
    if panels := _panels(part, found, None):
        hint = "The share of granted calls that took at most so long, all runs together."
        title = f"How long an acquire call took: the distribution by {axes[0]}"
        yield Folded(title, [StillPictures(legend, panels, hint)], is_open=part.kind == "cost", page_only=True)


def _panels(part: Part, found: Sequence[Summary], against: str | None) -> list[StillPicture]:
    """A small picture for each combination of the axes that are neither the series (the first axis) nor `against`."""
    axes = part.axes
    series_axis = next(iter(axes))
    rest = [axis for axis in axes if axis not in (series_axis, against)]
    panels = []
    for picked in product(*(axes[axis] for axis in rest)):
        some = [s for s in found if all(s.cell.at.get(a) == v for a, v in zip(rest, picked, strict=True))]
        series = [(value, [s for s in some if s.cell.at.get(series_axis) == value]) for value in axes[series_axis]]
        if against is None:
            picture = plots.latencies(series, "Share of granted acquire calls by duration")
        else:
            picture = plots.against(series, against, part.numbers(against), "Acquisitions per second")
        if picture:
            panels.append(StillPicture(picture, printable(" · ".join(picked))))
    return panels[:_MOST_PANELS]


def _moments(played: Played) -> Iterator[Block]:
    shown = [name for name in played.campaign.grid.cells if name in played.moments]
    if shown:
        yield Heading("What a violation looks like")
        yield Paragraph(
            f"The longest one of the first run that had one, for each configuration that had any. {LOOK_INTO}", "hint"
        )
    for number, name in enumerate(shown):
        yield Heading(name, 3)
        yield RunTimeline(f"moment{number}", played.moments[name])


def _configuration(played: Played, summary: Summary) -> Block:
    grid = played.campaign.grid
    last = grid.first_seed + summary.part.seeds - 1
    broke_off = [" Aborted and not counted: ", *folders(summary.broke_off)] if summary.broke_off else []
    return Folded(
        summary.cell.name,
        [
            DataTable(("", ""), tables.details(summary), "pairs"),
            CommandLine(facts.command(grid, summary.cell.name)),
            Paragraph(
                [f"Seeds {grid.first_seed} to {last}. Run folders: ", *folders(summary.folders), ".", *broke_off],
                "hint",
            ),
        ],
    )


def _cells(played: Played, found: Sequence[Summary]) -> list[dict[str, Any]]:
    records = export.cells_frame(found).astype(object).to_dict("records")
    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        | {"folders": s.folders, "command": facts.command(played.campaign.grid, s.cell.name)}
        for row, s in zip(records, found, strict=True)
    ]


def _plain(contrast: Contrast) -> dict[str, Any]:
    names = ("axis", "unit", "difference", "p_holm", "p_paired", "p_paired_holm", "speed")
    of = {name: getattr(contrast, name) for name in names}
    return {"part": contrast.part.title, "first": contrast.first.name, "second": contrast.second.name, **of}
