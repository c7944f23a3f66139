"""The page of the survey: a row a library, a column a promise, and what stands behind each ✗."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pandas as pd

from fencepost.text import plural
from harness.campaign.document import (
    LOOK_INTO,
    Block,
    Bullets,
    Code,
    CommandLine,
    DataTable,
    Folded,
    Heading,
    Paragraph,
    Prose,
    RunTimeline,
    Strong,
    StudyDocument,
    TableField,
    folders,
    paragraphs,
)
from harness.campaign.provenance import date_of
from harness.campaign.study import Played
from harness.survey import wording
from harness.survey.advice import FENCE, RULE, advise
from harness.survey.findings import FOLDER, Finding
from harness.survey.grid import FAULTS, PARTS, TTL_MS, USES, Fault
from harness.survey.promises import PROMISES, surveyed_as
from harness.survey.settle import MOST_RUNS, SIGNS, Row, Settled, asked, explaining, libraries_first


def document_of(
    findings: Sequence[Finding], played: Played, rows: Sequence[Row], folder: str = FOLDER
) -> StudyDocument:
    """`folder`: that of the findings, seen from the page."""
    grid, sorted_rows = played.campaign.grid, libraries_first(rows)
    faults = [fault for fault in FAULTS if fault.name in wording.met(grid)]
    uses = "; ".join(f"{use.name} ({use.says})" for use in USES)
    return played.document(
        name="survey",
        facts=[plural(sum(row.runs for row in rows), "run"), plural(len(faults), "kind") + " of fault"],
        left_out=wording.missing(rows, grid),
        blocks=[
            Paragraph(f"{wording.headline(rows)}.", "lead"),
            Paragraph(wording.READING, "hint"),
            *_advice(sorted_rows, played),
            *_matrices(sorted_rows, played),
            Paragraph("Point at a field to see why. A ✗ leads to what was found.", "hint"),
            Heading("How it was tested"),
            *paragraphs(wording.INTRODUCTION),
            Heading("Controls"),
            Paragraph(
                "Locks of which the answer is known were played among the others, under the same faults.", "hint"
            ),
            Bullets(wording.controls(rows) or ["None was played, so nothing shows that this page can be relied on."]),
            Heading("What is promised"),
            DataTable(
                ("promise", "what it says", "which runs put it to the test"),
                [(promise.title, promise.says, promise.counts) for promise in PROMISES],
                "said",
            ),
            *_found(findings, folder, played, sorted_rows),
            *_also(sorted_rows),
            Heading("What was done to them"),
            DataTable(
                ("fault", "what it is", "options of fencepost test"),
                [(fault.name, fault.says, _options(fault)) for fault in faults],
                "said",
            ),
            Paragraph(
                f"Each of them in each way to use a lock that the library offers: {uses}. The TTL is "
                f"{TTL_MS / 1000:g} s.",
                "hint",
            ),
            *_configured(sorted_rows),
            Heading("What was not tested"),
            Bullets(wording.NOT_TESTED),
        ],
        numbers={"subjects": [_numbers(played, row) for row in rows]},
        tables={"survey": frame(rows)},
    )


def _options(fault: Fault) -> Code:
    return Code(" ".join(f"--{name} {value}" for name, value in fault.options.items()))


def _advice(rows: Sequence[Row], played: Played) -> Iterator[Block]:
    asked_on = _asked_on(played)
    if advised := [
        (f"{of.language_name}, {PARTS[of.nodes].lower()}", _lock(of.row, asked_on), of.kept, of.lacks, of.add)
        for of in advise(rows, asked_on)
    ]:
        yield Heading("Which one to take")
        yield Paragraph(RULE, "hint")
        yield DataTable(("", "lock", "kept", "broken or not known", "what you add"), advised, "said")
        yield Paragraph(FENCE)


def _lock(row: Row | None, asked_on: str) -> TableField:
    if row is None:
        return TableField("none")
    note = f"{wording.version(row)} · {wording.released(row.library, asked_on)}"
    return TableField(row.subject.name, note, why=wording.settings(row.subject))


def _asked_on(played: Played) -> str:
    return max((date_of(line.folder) for line in played.lines), default="")


def _matrices(rows: Sequence[Row], played: Played) -> Iterator[Block]:
    asked_on = _asked_on(played)
    for nodes, title in PARTS.items():
        if some := [row for row in rows if row.subject.nodes == nodes]:
            promises = asked(some)
            fields = [
                (_name(row, asked_on), *(_answer(row, s) for s in row.settled if s.promise in promises)) for row in some
            ]
            yield Heading(f"{title}, tight settings: TTL {TTL_MS / 1000:g} s")
            yield DataTable(("library", *(promise.title for promise in promises)), fields, "promises")


def _name(row: Row, asked_on: str) -> TableField:
    subject = row.subject
    return TableField(
        subject.name, wording.about(row, asked_on), subject.role, subject.homepage, wording.source(subject)
    )


def _answer(row: Row, settled: Settled) -> TableField:
    to = f"#{_anchor(row, settled)}" if settled.answer == "broken" else ""
    why = f"{settled.promise.title}: {settled.why}"
    return TableField(SIGNS[settled.answer], wording.note(settled), settled.answer, to, why)


def _found(findings: Sequence[Finding], folder: str, played: Played, rows: Sequence[Row]) -> Iterator[Block]:
    """What broke each promise. A finding that explains several ✗ is open at the first of them."""
    broken = [(row, settled) for row in rows for settled in row.settled if settled.answer == "broken"]
    if broken:
        yield Heading("What was found")
        yield Paragraph(
            f"{LOOK_INTO} A command makes the first of the runs again. A seed repeats the load and the faults, not how "
            "they meet: what is rare may need several runs.",
            "hint",
        )
    read = set[str]()
    for row, settled in broken:
        yield from _broken(played, row, settled)
        for each in explaining(row, settled, findings):
            yield _told(each, folder, is_open=each.name not in read)
            read.add(each.name)
    there = {row.subject.name for row in rows}
    if others := [each for each in findings if each.name not in read and there & set(each.about.subjects)]:
        yield Heading("Findings that explain no ✗ of these runs")
        yield from (_told(each, folder, is_open=False) for each in others)


def _told(finding: Finding, folder: str, *, is_open: bool) -> Block:
    blocks: list[Block] = [Prose(finding.body, folder, finding.title, f"{finding.name}.md")]
    if not finding.about.is_awaited:
        run = Code(f"{folder}/{finding.about.run}")
        unpacks, judges = Code("tar -xf"), Code("fencepost analyze")
        text = ["The run that shows it best is ", run, ". ", unpacks, " unpacks it, and ", judges]
        blocks.append(Paragraph([*text, " judges it again."], "hint"))
    return Folded(finding.title, blocks, is_open)


def _broken(played: Played, row: Row, settled: Settled) -> Iterator[Block]:
    yield Heading(f"{row.subject.name}: {settled.promise.title}", 3, _anchor(row, settled))
    yield Paragraph(f"{wording.version(row).rstrip()} · promised: {settled.promise.says}", "hint")
    yield Paragraph([Strong(f"{settled.why[0].upper()}{settled.why[1:]}."), f" {wording.story(settled)}"])
    # What is explained says more than what is not.
    first = next((f for each in settled.broken for f in each.findings if f.why), settled.broken[0].findings[0])
    yield Paragraph(f"For example: {first.text}. {first.why}")
    if (moment := _moment(settled, played.timelines)) is not None:
        yield RunTimeline(f"moment-{_anchor(row, settled)}", moment)
    more = len(settled.broken) - MOST_RUNS
    yield CommandLine(wording.command(played.campaign.grid, settled))
    runs = folders([each.line.folder for each in settled.broken[:MOST_RUNS]])
    yield Paragraph(["Runs: ", *runs, f", and {more} more, in survey.json." if more > 0 else "."], "hint")


def _configured(rows: Sequence[Row]) -> Iterator[Block]:
    if said := [(row.subject.name, settings) for row in rows if (settings := wording.settings(row.subject))]:
        yield Heading("With which settings")
        yield Folded("How each library was configured", [DataTable(("lock", "settings"), said, "said")])


def _also(rows: Sequence[Row]) -> Iterator[Block]:
    if said := [f"{row.subject.name}: {also}" for row in rows if (also := wording.also(row))]:
        yield from (Heading("Also seen"), Bullets(said))


def _moment(settled: Settled, moments: Mapping[tuple[str, str], Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The picture of a finding that broke the promise, if one was kept."""
    found = ((each.line.cell, blamed.kind) for each in settled.broken for blamed in each.findings)
    kept = ((cell, "" if surveyed_as(kind) == "exclusive" else kind) for cell, kind in found)
    return next((moments[each] for each in kept if each in moments), None)


def _anchor(row: Row, settled: Settled) -> str:
    return f"{row.subject.name}-{settled.promise.name}"


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """One row a subject and promise; `low` and `high` are the ends of the 95 % interval, as shares."""
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


def _numbers(played: Played, row: Row) -> dict[str, object]:
    return {
        **msgspec.to_builtins(row.subject),
        "library": msgspec.to_builtins(row.library),
        **{name: getattr(row, name) for name in ("runs", "planned", "broke_off", "cannot")},
        "other_findings": row.others,
        "wrong_clocks": msgspec.to_builtins(row.clocks),
        "promises": [_promise(played, settled) for settled in row.settled],
    }


def _promise(played: Played, settled: Settled) -> dict[str, object]:
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
        "command": wording.command(played.campaign.grid, settled) if settled.broken else "",
    }
