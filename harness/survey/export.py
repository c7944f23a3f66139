"""The other forms of the page: Markdown to read in a repository, CSV and JSON to compute with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pandas as pd

from fencepost.markdown import Markdown, block, code, escaped, joined, table
from harness.campaign.folder import Campaign
from harness.survey import wording
from harness.survey.findings import FOLDER, Finding
from harness.survey.grid import PARTS
from harness.survey.promises import PROMISES, Promise
from harness.survey.settle import MOST_RUNS, Row, Settled, asked, libraries_first


def markdown(campaign: Campaign, rows: Sequence[Row], findings: Sequence[Finding]) -> str:
    """The same story as the page, without its pictures."""
    out = [f"# {escaped(campaign.grid.title)}", "", f"**{escaped(wording.headline(rows))}.**", ""]
    out += [line for text in (*wording.INTRODUCTION, wording.READING) for line in (escaped(text), "")]
    for nodes, title in PARTS.items():
        some = [row for row in libraries_first(rows) if row.subject.nodes == nodes]
        if some:
            heads = asked(some)
            out += [f"## {escaped(title)}", "", *table(("library", *(p.title for p in heads)), _cells(some, heads)), ""]
    out += ["## The controls", "", *(f"- {escaped(text)}" for text in wording.controls(rows)), ""]
    out += ["## What is promised", ""]
    out += table(("promise", "what it says", "when it counts"), [(p.title, p.says, p.counts) for p in PROMISES])
    out += ["", "## What was found", ""]
    for row in libraries_first(rows):
        for settled in row.settled:
            if settled.answer == "broken":
                out += _broken(campaign, row, settled, findings)
    out += ["## The faults", "", *table(("fault", "what it is", "options"), wording.faults(campaign.grid)), ""]
    out += [*table(("use", "what the clients do"), wording.uses()), "", "## What was not tested", ""]
    out += [f"- {escaped(text)}" for text in wording.NOT_TESTED]
    out += [f"- {escaped(text)}" for text in wording.missing(rows, campaign.grid)]
    out += ["", "## Do it again", "", escaped(wording.machine(campaign)), "", *block(campaign.command), ""]
    return "\n".join(out)


def _cells(rows: Sequence[Row], heads: Sequence[Promise]) -> list[list[str]]:
    return [
        [
            joined([row.subject.name, wording.about(row)]),
            *(" ".join(filter(None, (wording.sign(s), wording.note(s)))) for s in row.settled if s.promise in heads),
        ]
        for row in rows
    ]


def _broken(campaign: Campaign, row: Row, settled: Settled, findings: Sequence[Finding]) -> Iterator[str]:
    yield from (f"### {escaped(row.subject.name)}: {escaped(settled.promise.title)}", "")
    yield from (escaped(f"{settled.why[0].upper()}{settled.why[1:]}. {wording.story(settled)}"), "")
    for each in findings:
        if each.about.explains(row.subject.name, settled.promise.name):
            yield from (f"[{escaped(each.title)}]({FOLDER}/{each.name}.md)", "")
    yield from block(wording.command(campaign.grid, settled))
    folders = joined([code(each.line.folder) for each in settled.broken[:MOST_RUNS]], Markdown(", "))
    more = len(settled.broken) - MOST_RUNS
    yield from ("", f"Runs: {folders}{f', and {more} more, in survey.json' if more > 0 else ''}", "")


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """One row a subject and promise; `low` and `high` are the ends of the exact 95 % interval, as shares."""
    return pd.DataFrame(
        [
            {
                "subject": row.subject.name,
                "library": row.library.name,
                "version": row.library.version,
                "language": row.library.language,
                "nodes": row.subject.nodes,
                "role": row.subject.role,
                "promise": settled.promise.name,
                "answer": settled.answer,
                "broken": settled.rate.events,
                "at_stake": settled.rate.trials,
                "low": settled.rate.low,
                "high": settled.rate.high,
                "why": settled.why,
                "runs": row.runs,
                "folders": " ".join(each.line.folder for each in settled.broken),
            }
            for row in rows
            for settled in row.settled
        ]
    )


def document(campaign: Campaign, rows: Sequence[Row]) -> bytes:
    """`survey.json`: every subject with its answers, each with the runs that broke it and the command of the first."""
    value = {
        "schema_version": 1,
        "title": campaign.grid.title,
        "revision": campaign.revision,
        "machine": campaign.machine,
        "subjects": [
            {
                **msgspec.to_builtins(row.subject),
                "library": msgspec.to_builtins(row.library),
                "runs": row.runs,
                "planned": row.planned,
                "broke_off": row.broke_off,
                "cannot": row.cannot,
                "other_findings": row.others,
                "wrong_clocks": msgspec.to_builtins(row.clocks),
                "promises": [_promise(campaign, settled) for settled in row.settled],
            }
            for row in rows
        ],
    }
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


def _promise(campaign: Campaign, settled: Settled) -> dict[str, object]:
    return {
        "name": settled.promise.name,
        "answer": settled.answer,
        "why": settled.why,
        "rate": msgspec.to_builtins(settled.rate),
        "findings": settled.kinds,
        "faults": settled.by_fault,
        "runs": [
            {"cell": each.line.cell, "seed": each.line.seed, "folder": each.line.folder} for each in settled.broken
        ],
        "command": wording.command(campaign.grid, settled) if settled.broken else "",
    }
