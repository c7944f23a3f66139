"""The other forms of the page: Markdown to read in a repository, CSV and JSON to compute with."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pandas as pd

from fencepost.markdown import Markdown, block, code, escaped, joined, table
from harness.campaign import facts
from harness.campaign.folder import Campaign
from harness.claims import wording
from harness.claims.edges import Seen
from harness.claims.settle import Settled
from harness.claims.table import DOCUMENTS


def markdown(campaign: Campaign, settled: Sequence[Settled]) -> str:
    """The same story as the page, without its pictures."""
    out = [f"# {escaped(campaign.grid.title)}", "", f"**{escaped(wording.headline(settled))}.**", ""]
    for paragraph in wording.INTRODUCTION:
        out += [escaped(paragraph), ""]
    rows = [wording.row(each) for each in settled]
    out += [*table(wording.HEADS, [(name, *rest) for name, *rest in rows]), ""]
    out += ["## The evidence", ""]
    for each in settled:
        out += [f"### {escaped(each.claim.name)}: {each.answer}", ""]
        out += [*table(wording.TRIAL_HEADS, [wording.trial_row(tried) for tried in each.tried]), ""]
        for tried in each.tried:
            if command := wording.command(campaign.grid, tried):
                out += [*block(command), ""]
                out += [f"Runs: {joined([code(f) for f in tried.folders], Markdown(', ')) or 'none yet'}", ""]
        if each.edge is not None:
            out += [escaped(wording.edge_sentence(each.edge)), ""]
            out += [*table(wording.edge_heads(each.edge), wording.edge_rows(each.edge)), ""]
            if command := wording.edge_command(campaign.grid, each.edge):
                out += [*block(command), ""]
    named = dict.fromkeys(source for each in settled for source in each.claim.sources)
    out += ["## The documents", ""]
    for document in (DOCUMENTS[source] for source in named):
        out.append(
            f"- {escaped(document.short)}: {escaped(document.title)}{f': <{document.url}>' if document.url else ''}"
        )
    machine = facts.machine_line(campaign.machine)
    out += ["", "## Do it again", "", escaped(f"Revision {campaign.revision or 'unknown'}, {machine}."), ""]
    return "\n".join([*out, *block(campaign.command), ""])


def frame(settled: Sequence[Settled]) -> pd.DataFrame:
    """One row a trial, with the answer of its claim."""
    return pd.DataFrame(
        [
            {
                "claim": each.claim.name,
                "answer": each.answer,
                "prediction": each.claim.prediction,
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
                "folders": " ".join(tried.folders),
            }
            for each in settled
            for tried in each.tried
        ]
    )


def document(campaign: Campaign, settled: Sequence[Settled]) -> bytes:
    """`claims.json`: every claim with its answer and its runs."""
    value = {
        "schema_version": 1,
        "title": campaign.grid.title,
        "revision": campaign.revision,
        "machine": campaign.machine,
        "claims": [
            {
                **msgspec.to_builtins(each.claim),
                "answer": each.answer,
                "why": each.why,
                "as_predicted": each.as_predicted,
                "trials": [
                    {**row, "folders": tried.folders, "command": wording.command(campaign.grid, tried)}
                    for row, tried in zip(_records(each), each.tried, strict=True)
                ],
                "edge": None if each.edge is None else _edge(each.edge),
            }
            for each in settled
        ],
    }
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


def _edge(seen: Seen) -> dict[str, object]:
    edge = seen.edge
    return {
        "axis": edge.axis,
        "unit": edge.unit,
        "predicted": edge.predicted,
        "safe": edge.safe,
        "points": [{"at": point, **msgspec.to_builtins(found)} for point, found in seen.rates.items()],
        "missing": seen.missing,
    }


def _records(settled: Settled) -> list[dict[str, object]]:
    columns = ["experiment", "role", "expected", "held", "failed", "unknown", "missing", "measured", "low", "high"]
    return [{str(name): value for name, value in row.items()} for row in frame([settled])[columns].to_dict("records")]
