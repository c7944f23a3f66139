"""`index.html` of the survey: a row a library, a column a promise, and what stands behind each ✗."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.text import plural, printable, printable_lines
from harness.campaign import facts
from harness.campaign.folder import Campaign
from harness.report.html import render, script_json
from harness.survey import wording
from harness.survey.findings import FOLDER, Finding
from harness.survey.grid import PARTS
from harness.survey.promises import PROMISES, Promise
from harness.survey.prose import html
from harness.survey.settle import MOST_RUNS, Row, Settled, asked, libraries_first

Moments = Mapping[tuple[str, str], Mapping[str, Any]]
"""By cell and kind of finding (empty for an overlap)."""


def render_page(campaign: Campaign, rows: Sequence[Row], moments: Moments, findings: Sequence[Finding]) -> str:
    """The page as one string of HTML."""
    broken = [
        _broken(campaign, row, settled, moments, findings)
        for row in libraries_first(rows)
        for settled in row.settled
        if settled.answer == "broken"
    ]
    _open_each_once(broken)
    parts = (
        (title, [row for row in libraries_first(rows) if row.subject.nodes == nodes]) for nodes, title in PARTS.items()
    )
    return render(
        "survey.html.j2",
        title=campaign.grid.title,
        facts=[
            plural(sum(row.runs for row in rows), "run"),
            plural(len(wording.faults(campaign.grid)), "kind") + " of fault",
            facts.machine_line(campaign.machine),
            f"revision {campaign.revision or 'unknown'}",
        ],
        headline=wording.headline(rows),
        introduction=wording.INTRODUCTION,
        reading=wording.READING,
        controls=wording.controls(rows),
        promises=PROMISES,
        tables=[
            {"title": title, "promises": (heads := asked(some)), "rows": [_row(row, heads) for row in some]}
            for title, some in parts
        ],
        broken=broken,
        faults=wording.faults(campaign.grid),
        uses=wording.uses(),
        missing=wording.missing(rows, campaign.grid),
        not_tested=wording.NOT_TESTED,
        command=printable_lines(campaign.command),
    )


def _row(row: Row, heads: Sequence[Promise]) -> dict[str, Any]:
    return {
        "name": row.subject.name,
        "homepage": row.subject.homepage,
        "about": wording.about(row),
        "source": wording.source(row.subject),
        "also": wording.also(row),
        "role": row.subject.role,
        "cells": [
            {
                "answer": settled.answer,
                "sign": wording.sign(settled),
                "note": wording.note(settled),
                "why": f"{settled.promise.title}: {settled.why}",
                "to": _anchor(row, settled) if settled.answer == "broken" else "",
            }
            for settled in row.settled
            if settled.promise in heads
        ],
    }


def _broken(
    campaign: Campaign, row: Row, settled: Settled, moments: Moments, findings: Sequence[Finding]
) -> dict[str, Any]:
    lines = [each.line for each in settled.broken]
    # What is explained says more than what is not.
    first = next((f for each in settled.broken for f in each.findings if f.why), settled.broken[0].findings[0])
    return {
        "id": _anchor(row, settled),
        "title": f"{row.subject.name}: {settled.promise.title}",
        "library": " ".join(filter(None, (row.library.name, row.library.version))),
        "says": settled.promise.says,
        "why": settled.why,
        "story": wording.story(settled),
        "example": first.text,
        "explained": first.why,
        "moment": _moment(settled, moments),
        "command": printable(wording.command(campaign.grid, settled)),
        "runs": [(line.cell, line.seed, line.folder) for line in lines[:MOST_RUNS]],
        "more": len(lines) - MOST_RUNS,
        "findings": [
            {
                "name": each.name,
                "title": each.title,
                "run": None if each.about.is_awaited else f"{FOLDER}/{each.about.run}",
                "text": html(each.body, FOLDER),
            }
            for each in findings
            if each.about.explains(row.subject.name, settled.promise.name)
        ],
    }


def _open_each_once(broken: Sequence[dict[str, Any]]) -> None:
    """A finding that explains several ✗ is there to be read at the first of them; at the others it opens on a click."""
    read = set[str]()
    for each in broken:
        for finding in each["findings"]:
            finding["is_open"] = finding["name"] not in read
            read.add(finding["name"])


def _moment(settled: Settled, moments: Moments) -> dict[str, Any] | None:
    """The picture of a finding that broke the promise, if one was kept."""
    for each in settled.broken:
        for blamed in each.findings:
            kind = "" if blamed.kind in ("overlap", "over-capacity") else blamed.kind
            if (key := (each.line.cell, kind)) in moments:
                moment = moments[key]
                return {
                    "show": moment["show"],
                    "text": moment["text"],
                    "from_s": f"{moment['from_s']:.1f}",
                    "folder": moment["folder"],
                    "data": script_json(moment["data"]),
                }
    return None


def _anchor(row: Row, settled: Settled) -> str:
    return f"{row.subject.name}-{settled.promise.name}"
