"""`index.html` of the claims: a row a claim, its evidence, and the picture of the run that decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.text import plural, printable_lines
from harness.campaign import facts
from harness.campaign.folder import Campaign
from harness.claims import wording
from harness.claims.edge_chart import draw
from harness.claims.edges import Seen
from harness.claims.settle import Settled, Tried
from harness.claims.table import DOCUMENTS
from harness.report.html import render, script_json


def render_page(campaign: Campaign, settled: Sequence[Settled], moments: Mapping[str, Mapping[str, Any]]) -> str:
    """The page as one string of HTML. `moments`: by cell, the timeline of its first run."""
    named = dict.fromkeys(source for each in settled for source in each.claim.sources)
    return render(
        "claims.html.j2",
        title=campaign.grid.title,
        facts=[
            plural(len(settled), "claim"),
            plural(len(campaign.grid.cells), "experiment"),
            plural(sum(len(tried.folders) for tried in distinct(settled)), "run"),
            facts.machine_line(campaign.machine),
            f"revision {campaign.revision or 'unknown'}",
        ],
        headline=wording.headline(settled),
        introduction=wording.INTRODUCTION,
        complete=not any(tried.missing for tried in distinct(settled))
        and not any(each.edge.missing for each in settled if each.edge is not None),
        heads=wording.HEADS,
        trial_heads=wording.TRIAL_HEADS,
        claims=[_claim(number, each, campaign, moments) for number, each in enumerate(settled)],
        documents=[DOCUMENTS[source] for source in named],
        command=printable_lines(campaign.command),
    )


def distinct(settled: Sequence[Settled]) -> Sequence[Tried]:
    """Every experiment once: claims share them."""
    return list({tried.trial.script: tried for each in settled for tried in each.tried}.values())


def _claim(
    number: int, settled: Settled, campaign: Campaign, moments: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    decisive = next((t.trial.script for t in _decisive_first(settled) if t.trial.script in moments), None)
    return {
        "name": settled.claim.name,
        "row": wording.row(settled),
        "trials": [wording.trial_row(tried) for tried in settled.tried],
        "edge": None if settled.edge is None else _edge(settled.edge, campaign),
        "moment": None if decisive is None else _moment(f"moment{number}", decisive, moments[decisive]),
        "runs": [
            {"command": command, "folders": tried.folders}
            for tried in settled.tried
            if (command := wording.command(campaign.grid, tried))
        ],
    }


def _edge(seen: Seen, campaign: Campaign) -> dict[str, Any]:
    return {
        "text": wording.edge_sentence(seen),
        "picture": draw(seen),
        "heads": wording.edge_heads(seen),
        "rows": wording.edge_rows(seen),
        "command": wording.edge_command(campaign.grid, seen),
    }


def _decisive_first(settled: Settled) -> list[Tried]:
    """What speaks against a refuted claim comes first, and controls last."""
    return sorted(
        (tried for tried in settled.tried if tried.trial.role != "control"),
        key=lambda tried: not (tried.contradicting if settled.answer == "refuted" else tried.supporting),
    )


def _moment(name: str, cell: str, moment: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": name,
        "cell": cell,
        "text": moment["text"],
        "folder": moment["folder"],
        "data": script_json(moment["data"]),
    }
