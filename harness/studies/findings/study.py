"""`fencepost study findings`: three runs of each published finding, with the settings that its page names.

A finding shows if each of its runs has the finding of the judge that it is about, blamed on the lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from fencepost.text import plural
from harness.campaign import facts
from harness.campaign.document import Code, DataTable, Heading, Paragraph, StudyDocument
from harness.campaign.folder import RunLine
from harness.campaign.grid import Cell, Grid, Part
from harness.campaign.study import Played, Study
from harness.studies.findings.table import ALSO_SHOWN, PUBLISHED_AS, RECOMMENDED, REPLAYS, TIGHT, TIGHT_TTL_MS, Replay

RUNS: Final = 3
REPORT: Final = Path("results/survey/replays")
_MEANING: Final = (
    "A finding accuses a lock only if each of its runs with tight settings shows it. Otherwise the finding is not "
    "published, or its text does not name the lock as its subject."
)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A finding with one setting. `finding`: the name of its text; `shown`: the runs that have it; `lines`: all that
    were judged."""

    finding: str
    lock: str
    kind: str
    settings: str
    ttl_ms: int
    cell: str
    lines: Sequence[RunLine]

    @property
    def shown(self) -> list[RunLine]:
        return [line for line in self.lines if line.figures and any(b.kind == self.kind for b in line.figures.blamed)]

    @property
    def is_shown(self) -> bool:
        """Whether every run that was planned is there and has it."""
        return len(self.shown) == len(self.lines) >= RUNS

    @property
    def said(self) -> str:
        """`2 of 3 runs`."""
        return f"{len(self.shown)} of {plural(len(self.lines), 'run')}"


def findings_grid(name: str, seeds: int, *, documented: bool) -> Grid:
    """`documented`: also with the TTLs that the libraries' documentation shows."""
    cells = [_cell(replay, TIGHT, TIGHT_TTL_MS, {}) for replay in REPLAYS]
    if documented:
        cells += [
            _cell(replay, known.settings, known.ttl_ms, replay.slow)
            for replay in REPLAYS
            if replay.slow is not None
            and (known := RECOMMENDED.get(replay.lock)) is not None
            and known.ttl_ms != TIGHT_TTL_MS
        ]
    part = Part(title="Findings", cells=tuple(cells), seeds=seeds, options={"recovery": "2s", "require": "lease"})
    question = "Does each published finding show in every one of its runs?"
    return Grid(name=name, title="The published findings, replayed", question=question, parts=(part,))


def _cell(replay: Replay, settings: str, ttl_ms: int, changed: Mapping[str, str]) -> Cell:
    at = {"finding": replay.finding, "lock": replay.lock, "settings": settings, "kind": replay.kind}
    name = f"{replay.finding} · {replay.lock} · {settings}"
    options = {"lock": replay.lock, "ttl": f"{ttl_ms}ms", **replay.options, **changed}
    return Cell(name, {name: _in_ms(value, ttl_ms) for name, value in options.items()}, at)


def _in_ms(value: str, ttl_ms: int) -> str:
    """A duration or hold in TTLs, as `fencepost test` takes it; a nemesis takes TTLs as they are."""
    number = value.removesuffix("ttl")
    return f"{float(number) * ttl_ms:g}ms" if value.endswith("ttl") and number.replace(".", "").isdecimal() else value


def replayed(grid: Grid, lines: Sequence[RunLine]) -> list[Replayed]:
    """Each cell of the grid with its judged runs, once for each finding that they show."""
    found = []
    for name, (part, cell) in grid.cells.items():
        judged = [line for line in lines if line.cell == name and line.error is None]
        ttl_ms = int({**part.options, **cell.options}["ttl"].removesuffix("ms"))
        finding, lock, settings = (cell.at[axis] for axis in ("finding", "lock", "settings"))
        shown = [(PUBLISHED_AS.get(finding, finding), cell.at["kind"])]
        shown += [(also.finding, also.kind) for also in ALSO_SHOWN if also.of == finding and lock in also.locks]
        found += [Replayed(text, lock, kind, settings, ttl_ms, name, judged) for text, kind in shown]
    return found


def document_of(played: Played, found: Sequence[Replayed]) -> StudyDocument:
    grid = played.campaign.grid
    heads = ("finding", "lock", "settings", "the judge's finding", "shown in", "command")
    rows = [
        (one.finding, one.lock, one.settings, Code(one.kind), one.said, Code(facts.command(grid, one.cell, 1)))
        for one in found
    ]
    return played.document(
        [
            Paragraph(f"{headline(found)}.", "lead"),
            Paragraph(_MEANING, "hint"),
            Heading("Each finding"),
            DataTable(heads, rows, "said"),
        ],
        {"findings": [{"finding": one.finding, "lock": one.lock, "settings": one.settings, "kind": one.kind,
                       "shown": len(one.shown), "runs": len(one.lines),
                       "folders": [line.folder for line in one.lines]} for one in found]},
    )  # fmt: skip


def headline(found: Sequence[Replayed]) -> str:
    """Of the tight settings. A pair with several faults shows if it does with each of them."""
    pairs: dict[tuple[str, str], bool] = {}
    for one in found:
        if one.settings == TIGHT and one.lines:
            pair = (one.finding, one.lock)
            pairs[pair] = pairs.get(pair, True) and one.is_shown
    findings = len({finding for finding, _ in pairs})
    shown = f"{sum(pairs.values())} of {plural(len(pairs), 'pair')} of a finding and a lock"
    return f"{plural(findings, 'finding')}: {shown} show in every run"


def tell(found: Sequence[Replayed], out: Console) -> None:
    for one in found:
        out.print(f"{one.said}: {one.cell}", soft_wrap=True)
    out.print(f"{headline(found)}.")


def study_of(grid: Grid) -> Study[Sequence[Replayed]]:
    return Study(
        grid=grid,
        place=REPORT,
        settle=lambda played: replayed(played.campaign.grid, played.lines),
        document=document_of,
        tell=tell,
        leaves_out=True,
        may_grow=True,
        group_of=lambda cell: grid.at(cell)["lock"],
    )


STUDY: Final = study_of(findings_grid("findings", RUNS, documented=True))
QUICK: Final = study_of(findings_grid("findings-quick", 1, documented=False))
