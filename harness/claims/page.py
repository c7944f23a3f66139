"""The page of the claims: a row a claim, its evidence, and the picture of the run that decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pandas as pd

from fencepost.text import plural
from harness.campaign import facts
from harness.campaign import wording as rates
from harness.campaign.document import (
    LOOK_INTO,
    Block,
    Bullets,
    CommandLine,
    DataTable,
    Folded,
    Heading,
    Paragraph,
    RunTimeline,
    StillPicture,
    StudyDocument,
    TableField,
    Text,
    folders,
    paragraphs,
)
from harness.campaign.grid import Grid
from harness.campaign.study import Played
from harness.claims import wording
from harness.claims.edge_chart import draw
from harness.claims.edges import Seen
from harness.claims.settle import SettledClaim, Tried
from harness.claims.table import DOCUMENTS

_UNFINISHED: Final = "Not all runs are finished: what follows is drawn from the finished ones."


def document_of(played: Played, settled: Sequence[SettledClaim]) -> StudyDocument:
    grid = played.campaign.grid
    tried = {each.trial.script: each for one in settled for each in one.tried}.values()  # claims share them
    left_out = dict.fromkeys(f"{each.trial.script}: {each.cannot}" for each in tried if each.cannot)
    named = dict.fromkeys(source for each in settled for source in each.claim.sources)
    unfinished = any(each.missing for each in tried) or any(each.edge and each.edge.missing for each in settled)
    return played.document(
        name="claims",
        facts=[
            plural(len(settled), "claim"),
            plural(len(grid.cells), "experiment"),
            plural(sum(len(each.folders) for each in tried), "run"),
        ],
        left_out=left_out,
        blocks=[
            Paragraph(f"{wording.headline(settled)}.", "lead"),
            *paragraphs([_UNFINISHED] if unfinished else [], "notice"),
            Heading("The claims"),
            DataTable(wording.HEADS, [_row(each) for each in settled]),
            Heading("How they are settled"),
            *paragraphs(wording.INTRODUCTION),
            Heading("The evidence"),
            Paragraph(f"The picture is the whole first run of the experiment that decides. {LOOK_INTO}", "hint"),
            *(block for n, each in enumerate(settled) for block in _evidence(n, each, grid, played.moments)),
            Heading("The documents"),
            Bullets([_source(source) for source in named]),
        ],
        numbers={"claims": [_numbers(grid, each) for each in settled]},
        tables={"claims": frame(settled)},
    )


def _row(settled: SettledClaim) -> list[Text | TableField]:
    """Under `wording.HEADS`."""
    claim, answer = settled.claim, settled.answer
    return [
        TableField(claim.name, to=f"#{claim.name}"),
        TableField(answer, tone=f"answer {answer.replace(' ', '-')}"),
        claim.gist,
        ", ".join(DOCUMENTS[source].short for source in claim.sources),
        wording.evidence(settled),
        TableField(wording.prediction(settled), tone="predicted"),
    ]


def _source(name: str) -> str:
    source = DOCUMENTS[name]
    return f"{source.short}: {source.title}{f', {source.url}' if source.url else ''}"


def _evidence(
    number: int, settled: SettledClaim, grid: Grid, moments: Mapping[str, Mapping[str, Any]]
) -> Iterator[Block]:
    name = settled.claim.name
    yield Heading(f"{name}: {settled.answer}", 3, name)
    yield Paragraph(f"“{settled.claim.gist}” {wording.evidence(settled)}")
    yield DataTable(wording.TRIAL_HEADS, [wording.trial_row(tried) for tried in settled.tried], "trials")
    if settled.edge is not None:
        yield from _edge(settled.edge, grid)
    for cell in [t.trial.script for t in _decisive_first(settled) if t.trial.script in moments][:1]:
        yield RunTimeline(f"moment{number}", moments[cell])
    runs: list[Block] = []
    for tried in settled.tried:
        if command := _command(grid, tried.trial.script):
            runs += [CommandLine(command), Paragraph(["Runs: ", *folders(tried.folders)], "hint")]
    yield Folded(f"The runs of {name}, and the commands that repeat them", runs)


def _edge(seen: Seen, grid: Grid) -> Iterator[Block]:
    yield Paragraph(wording.edge_sentence(seen))
    edge = seen.edge
    yield StillPicture(
        draw(seen), f"{edge.axis}; dots are rates, whiskers 95 % intervals, the dashed line is the predicted edge."
    )
    rows = [
        (f"{point:g} {edge.unit}", "nothing" if edge.is_safe(point) else edge.what, rates.counted(found))
        for point, found in seen.rates.items()
    ]
    yield DataTable((edge.axis, "predicted", f"{edge.what}, of so many {edge.trials} (95 % interval)"), rows, "trials")
    if command := _command(grid, edge.cell(next(iter(seen.rates)))):
        yield CommandLine(command)


def _command(grid: Grid, cell: str) -> str:
    """The command that makes a run of this cell; empty for one that was left out."""
    return facts.command(grid, cell) if cell in grid.cells else ""


def _decisive_first(settled: SettledClaim) -> list[Tried]:
    """What speaks against a refuted claim comes first, and controls last."""
    return sorted(
        (tried for tried in settled.tried if tried.trial.role != "control"),
        key=lambda tried: not (tried.contradicting if settled.answer == "refuted" else tried.supporting),
    )


def frame(settled: Sequence[SettledClaim]) -> pd.DataFrame:
    """One row a trial, with the answer of its claim."""
    return pd.DataFrame(
        [
            {"claim": each.claim.name, "answer": each.answer, "prediction": each.claim.prediction}
            | _trial(tried)
            | {"folders": " ".join(tried.folders)}
            for each in settled
            for tried in each.tried
        ]
    )


def _trial(tried: Tried) -> dict[str, Any]:
    return {
        "experiment": tried.trial.script,
        "role": tried.trial.role,
        "expected": tried.expects,
        "held": tried.held,
        "failed": tried.failed,
        "unknown": tried.unknown,
        "missing": tried.missing,
        "measured": tried.measured.in_words if tried.measured else "",
        "low": tried.rate.low,
        "high": tried.rate.high,
    }


def _numbers(grid: Grid, settled: SettledClaim) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(settled.claim),
        "answer": settled.answer,
        "why": settled.why,
        "as_predicted": settled.as_predicted,
        "trials": [
            {**_trial(each), "folders": each.folders, "command": _command(grid, each.trial.script)}
            for each in settled.tried
        ],
        "edge": None if settled.edge is None else _sweep(settled.edge),
    }


def _sweep(seen: Seen) -> dict[str, object]:
    edge = seen.edge
    return {name: getattr(edge, name) for name in ("axis", "unit", "predicted", "safe")} | {
        "points": [{"at": point, **msgspec.to_builtins(found)} for point, found in seen.rates.items()],
        "missing": seen.missing,
    }
