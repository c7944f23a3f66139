"""What `fencepost claims` does: play what is missing, settle every claim by rule, write the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fencepost.files import write_whole
from harness.campaign.folder import Campaign, CampaignFolder, RunLine, finished_runs
from harness.campaign.hands import Hands
from harness.campaign.play import make_plan, play
from harness.claims import export, wording
from harness.claims.claim import Claim, Trial
from harness.claims.edges import EDGES, Seen, seen_of
from harness.claims.grid import chosen, claims_grid, is_coarse, runs_of, unplayable
from harness.claims.loads import LOADS
from harness.claims.page import render_page
from harness.claims.settle import Settled, settle, tried_of
from harness.run.prepare import remove_leftovers
from harness.scripts.experiment import find_experiments

REPORTS = Path("results/claims")
"""Where pages are kept, one folder each, seen from the working directory, unless something else is said."""


def run_claims(
    report: Path | None,
    results: Path,
    *,
    only: Sequence[str],
    repeats: int,
    cluster: str | None,
    hands: Hands,
    command: str,
    out: Console,
) -> int:
    """Make the runs that are not there yet and write the page. 0: every claim is decided; 1: one is undecided although
    all runs are there; 2: not all runs are. A claim that this machine cannot test is undecided, and not played. Raises
    FencepostError if it can test none; later, after the page was written."""
    claims = chosen(only)
    place = report or REPORTS / folder_name(only, repeats, cluster)
    finished = finished_runs(place)
    cannot = unplayable(claims, repeats, cluster, finished)
    playable = [claim for claim in claims if not any(trial.script in cannot for trial in claim.trials)]
    if not playable:
        raise next(iter(cannot.values()))
    plan = make_plan(claims_grid(playable, repeats, cluster), yes=True, finished=finished)
    campaign = Campaign.begun(plan.grid, command)
    folder = CampaignFolder.claim(place, campaign)
    try:
        remove_leftovers(out)
        try:
            is_complete = play(plan, folder, results, campaign.revision, out, hands=hands)
        finally:
            settled = settle_all(claims, repeats, folder.lines(), cannot)
            write_page(folder, settled)
        out.print(render(settled))
        out.print(f"{wording.headline(settled)}.")
        out.print(f"page: {folder.path / 'index.html'}", soft_wrap=True)
    finally:
        folder.close()
    if not is_complete:
        return 2
    return 1 if any(each.answer == "undecided" for each in settled) else 0


def folder_name(only: Sequence[str], repeats: int, cluster: str | None) -> str:
    """`all-x20`, `clock-step-x3-docker`: the same for the same runs, so that the same command resumes."""
    claims = "+".join(only[:3]) + (f"+{len(only) - 3}-more" if len(only) > 3 else "") if only else "all"
    return "-".join([claims, f"x{repeats}", *([cluster] if cluster else [])])


def settle_all(
    claims: Sequence[Claim], repeats: int, lines: Sequence[RunLine], cannot: Mapping[str, object] | None = None
) -> list[Settled]:
    """Every claim, from the runs that are there. `cannot`: why this machine cannot play an experiment, by its cell."""
    return [
        settle(
            claim,
            [
                tried_of(
                    trial,
                    _expects(trial),
                    runs_of(trial, repeats),
                    lines,
                    str((cannot or {}).get(trial.script, "")),
                )
                for trial in claim.trials
            ],
            _edge_of(claim, repeats, lines, cannot or {}),
        )
        for claim in claims
    ]


def _edge_of(claim: Claim, repeats: int, lines: Sequence[RunLine], cannot: Mapping[str, object]) -> Seen | None:
    """A claim whose scripts this machine cannot play is left out as a whole."""
    if not claim.edge or any(trial.script in cannot for trial in claim.trials):
        return None
    return seen_of(EDGES[claim.edge], lines, repeats, coarse=is_coarse(repeats))


def _expects(trial: Trial) -> str:
    if load := LOADS.get(trial.script):
        beside = f" {load.beside}" if load.beside else ""
        return f"{load.expects.says}{f', compared with{beside}' if beside else ''}"
    return find_experiments(trial.script)[0].expect.says


def write_page(folder: CampaignFolder, settled: Sequence[Settled]) -> None:
    """Write every form of the page from the record."""
    forms: dict[str, str | bytes] = {
        "index.html": render_page(folder.campaign, settled, folder.timelines()),
        "claims.md": export.markdown(folder.campaign, settled),
        "claims.csv": export.frame(settled).to_csv(index=False),
        "claims.json": export.document(folder.campaign, settled),
    }
    for name, content in forms.items():
        write_whole(folder.path / name, content)


def render(settled: Sequence[Settled]) -> Table:
    """The table for a terminal."""
    table = Table(box=None, pad_edge=False)
    for head in ("claim", "answer", "why"):
        table.add_column(head, overflow="fold")
    for each in settled:
        table.add_row(each.claim.name, each.answer, each.why)
    return table
