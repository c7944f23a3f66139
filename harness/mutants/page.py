"""The page of the mutants: what found each, what the verdict said, and whether that names the right cause."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import msgspec
import pandas as pd

from fencepost.text import MISSING, plural
from harness.campaign.document import Block, Code, DataTable, Heading, Paragraph, StudyDocument, Text
from harness.campaign.grid import Grid
from harness.campaign.study import Played
from harness.mutants import explained
from harness.mutants.table import Row, comparison, conclusion, in_words
from workloads.mutants import CONDITIONS

_READING = (
    "Each mutant is the reference lock with one line wrong (docs/mutants.md). A cell shows in how many runs the "
    "verdict had a finding that names the mutant, and the median time from the start of a run to the first event that "
    "shows the mistake. In brackets: runs with other findings that blame the lock. A dash: these faults did not find "
    "it. ",
    Code("plain"),
    " is ",
    Code("partition+latency+pause+crash"),
    " with the load that a run has by default; ",
    Code("unaimed"),
    " is ",
    Code("standard:aim=no"),
    ", which stops clients wherever they are. The last rows are correct locks under the same loads, and the mutants "
    "together.",
)


def document_of(played: Played, rows: Sequence[Row]) -> StudyDocument:
    grid = played.campaign.grid
    finished = sum(line.error is None for line in played.lines)
    return played.document(
        name="table",
        facts=[plural(finished, "run"), plural(len(rows), "lock")],
        blocks=[
            Paragraph(grid.question),
            Paragraph(f"{conclusion(rows)} {comparison(rows)}".rstrip(), "lead"),
            Paragraph(_READING, "hint"),
            in_words(rows),
            Heading("What the verdict says"),
            _verdicts(rows),
            *_explanations(rows),
            Heading("Method"),
            Paragraph(f"A run ends as soon as the finding appears. Seeds and longest run, {_longest(grid)}."),
            Heading("Settings, loads and faults", 3),
            DataTable(("settings", "purpose", "options"), [_settings(name) for name in CONDITIONS], "said"),
        ],
        numbers={"conclusion": conclusion(rows), "rows": rows, "runs": _runs(played)},
        tables={"table": frame(rows)},
    )


def _verdicts(rows: Sequence[Row]) -> Block:
    heads = ("mutant", "seen in", "finding", "the first one, as the verdict worded it", "other findings: runs")
    shown = [
        (
            row.name,
            row.source or MISSING,
            _joined([row.finding, *row.also], " or "),
            row.text or MISSING,
            _joined([f"{kind} {runs}" for kind, runs in row.others.items()], ", ") or MISSING,
        )
        for row in rows
        if row.finding is not None
    ]
    return DataTable(heads, shown, "said")


def _joined(words: Sequence[str], by: str) -> list[str]:
    return [part for number, word in enumerate(words) for part in ([by] * bool(number) + [Code(word)])]


def _explanations(rows: Sequence[Row]) -> Iterator[Block]:
    if said := [(row.name, row.said) for row in rows if row.said]:
        yield Heading("What fencepost explain says")
        yield Paragraph(explained.conclusion(said))
        cells = [(*cell, of.why) for cell, (_, of) in zip(explained.cells(said), said, strict=True)]
        yield DataTable((*explained.HEADS, "in one of them"), cells, "said")


def _longest(grid: Grid) -> str:
    return "; ".join(
        f"{part.title}: {plural(part.seeds, 'seed')}, at most {part.options['duration']}" for part in grid.parts
    )


def _settings(name: str) -> tuple[Text, ...]:
    conditions = CONDITIONS[name]
    options = [conditions.options(kind).items() for kind in conditions.nemeses]
    words = [shlex.join(f"--{option}={value}" for option, value in each) for each in options]
    return name, conditions.text, _joined(words, "; ")


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """One row a lock and kind of fault."""
    return pd.DataFrame(
        [
            {"lock": row.name, "finding": row.finding, "nemesis": nemesis}
            | {name: getattr(field, name) for name in ("runs", "caught", "named", "median_ms")}
            for row in rows
            for nemesis, field in row.fields.items()
        ]
    )


def _runs(played: Played) -> list[dict[str, object]]:
    of = ("cell", "seed", "folder", "verdict", "error")
    return [
        {name: getattr(line, name) for name in of}
        | {"blamed": msgspec.to_builtins(line.figures.blamed if line.figures else ())}
        for line in played.lines
    ]
