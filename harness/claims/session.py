"""`fencepost claims` as a study: the runs of every claim, and the rule that settles it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from harness.campaign.document import DataTable
from harness.campaign.folder import RunLine, finished_runs
from harness.campaign.forms import at_terminal
from harness.campaign.grid import Grid
from harness.campaign.play import playable
from harness.campaign.study import Played, Study
from harness.claims import wording
from harness.claims.claim import Claim, Trial
from harness.claims.edges import EDGES, Seen, seen_of
from harness.claims.grid import chosen, claims_grid, is_coarse, runs_of
from harness.claims.loads import LOADS
from harness.claims.page import document_of
from harness.claims.settle import SettledClaim, Tried, settle, tried_of
from harness.claims.table import CLAIMS
from harness.scripts.experiment import find_experiments

REPORTS = Path("results/claims")
"""Where pages are kept, one folder each, seen from the working directory, unless something else is said."""


def claims_study(
    report: Path | None, *, only: Sequence[str], repeats: int, cluster: str | None
) -> Study[Sequence[SettledClaim]]:
    """A claim that this machine cannot test is undecided, and not played. Its page also shows the other claims whose
    experiments are on record. Exit code 0: every claim is decided; 1: one is undecided although all runs are there; 2:
    not all runs are. Raises FencepostError if this machine can test none."""
    claims = chosen(only)
    place = report or REPORTS / folder_name(only, repeats, cluster)
    _, cannot = playable(claims_grid(claims, repeats, cluster), finished_runs(place))
    testable = [claim for claim in claims if not any(trial.script in cannot for trial in claim.trials)]
    if not testable:
        raise next(iter(cannot.values()))
    grid = claims_grid(testable, repeats, cluster)
    return Study(
        grid=grid,
        place=place,
        settle=lambda played: settle_all(
            with_recorded(claims, grid, played.campaign.grid), repeats, played.lines, cannot
        ),
        document=document_of,
        may_grow=True,
        tell=tell,
        exit_code=exit_code,
    )


def exit_code(played: Played, settled: Sequence[SettledClaim]) -> int:
    return int(any(each.answer == "undecided" for each in settled)) if played.is_complete else 2


def folder_name(only: Sequence[str], repeats: int, cluster: str | None) -> str:
    """`all-x20`, `clock-step-x3-docker`: the same for the same runs, so that the same command resumes."""
    claims = "+".join(only[:3]) + (f"+{len(only) - 3}-more" if len(only) > 3 else "") if only else "all"
    return "-".join([claims, f"x{repeats}", *([cluster] if cluster else [])])


def with_recorded(claims: Sequence[Claim], asked: Grid, recorded: Grid) -> Sequence[Claim]:
    """These claims; where the record has more than was asked for, also every other claim whose experiments it has, in
    the table's order."""
    if recorded.cells.keys() == asked.cells.keys():
        return claims
    return [
        claim for claim in CLAIMS if claim in claims or all(trial.script in recorded.cells for trial in claim.trials)
    ]


def settle_all(
    claims: Sequence[Claim], repeats: int, lines: Sequence[RunLine], cannot: Mapping[str, object] | None = None
) -> list[SettledClaim]:
    """Every claim, from the runs that are there. `cannot`: why this machine cannot play an experiment, by its cell."""
    why_not = cannot or {}

    def tried(trial: Trial) -> Tried:
        return tried_of(trial, _expects(trial), runs_of(trial, repeats), lines, str(why_not.get(trial.script, "")))

    def edge(claim: Claim) -> Seen | None:
        """A claim whose scripts this machine cannot play is left out as a whole."""
        if not claim.edge or any(trial.script in why_not for trial in claim.trials):
            return None
        return seen_of(EDGES[claim.edge], lines, repeats, coarse=is_coarse(repeats))

    return [settle(claim, [tried(trial) for trial in claim.trials], edge(claim)) for claim in claims]


def _expects(trial: Trial) -> str:
    if load := LOADS.get(trial.script):
        beside = f" {load.beside}" if load.beside else ""
        return f"{load.expects.says}{f', compared with{beside}' if beside else ''}"
    return find_experiments(trial.script)[0].expect.says


def tell(settled: Sequence[SettledClaim], out: Console) -> None:
    rows = [(each.claim.name, each.answer, each.why) for each in settled]
    out.print(at_terminal(DataTable(("claim", "answer", "why"), rows)))
    out.print(f"{wording.headline(settled)}.")
