"""The runs that settle claims: every experiment that one of them needs, several times."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from fencepost.errors import BrokenEnvironmentError, FencepostError, UsageError
from harness.campaign.grid import Cell, Grid, Part, check
from harness.campaign.one_run import config_of
from harness.claims.table import CLAIMS, Claim, Trial


def chosen(only: Collection[str]) -> tuple[Claim, ...]:
    """The claims of these names, in the table's order; all of them if none is named. Raises UsageError."""
    known = [claim.name for claim in CLAIMS]
    for name in only:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            question = f", did you mean {near[0]}?" if near else ";"
            raise UsageError(f"claim {name!r} is not known{question} see `fencepost claims --list`")
    return tuple(claim for claim in CLAIMS if not only or claim.name in only)


def unplayable(claims: Sequence[Claim], cluster: str | None) -> dict[str, FencepostError]:
    """Why this machine cannot play an experiment, by its cell: no root, no compiler."""
    found: dict[str, FencepostError] = {}
    for cell, trial in _trials(claims).items():
        options = {**_shared(cluster), **trial.options}
        try:
            config_of(trial.script, [f"--{name}={value}" for name, value in options.items()])
        except (UsageError, BrokenEnvironmentError) as error:
            found[cell] = error
    return found


def claims_grid(claims: Sequence[Claim], repeats: int, cluster: str | None) -> Grid:
    """`repeats`: of each experiment. `cluster`: where all of them run; None: where each of them chooses."""
    cells = tuple(
        Cell(cell, dict(trial.options), {"experiment": cell}, trial.script) for cell, trial in _trials(claims).items()
    )
    return check(
        Grid(
            name="claims",
            title="What is said about locks on Redis",
            question="Which of the claims in the debate about distributed locks on Redis hold, as far as experiments "
            "can tell?",
            parts=(Part(title="experiments", cells=cells, seeds=repeats, options=_shared(cluster)),),
        )
    )


def _trials(claims: Sequence[Claim]) -> dict[str, Trial]:
    """Every experiment once, by its cell."""
    return {trial.cell: trial for claim in claims for trial in claim.trials}


def _shared(cluster: str | None) -> dict[str, str]:
    return {} if cluster is None else {"cluster": cluster}
