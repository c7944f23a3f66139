"""The runs that settle claims: every experiment that one of them needs, several times."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from fencepost.errors import UsageError
from fencepost.meant import question
from harness.campaign.grid import Cell, Grid, Part, check
from harness.claims.claim import Claim, Trial
from harness.claims.edges import EDGES, Edge
from harness.claims.loads import LOADS
from harness.claims.table import CLAIMS

LEAST_LOADS: Final = 5
"""Runs at least of a load on which a sign test decides: with fewer it cannot. With fewer of everything else, edges are
swept in larger steps."""
LEAST_DRAWN: Final = 3
"""Runs at least of every other load: its faults are drawn, and a control has to show in one of them what it must."""
_BY_SIGN_TEST: Final = frozenset(
    trial.script for claim in CLAIMS if claim.says == "mostly" for trial in claim.trials if trial.script in LOADS
)


def chosen(only: Collection[str]) -> tuple[Claim, ...]:
    """The claims of these names, in the table's order; all of them if none is named. Raises UsageError."""
    known = [claim.name for claim in CLAIMS]
    for name in only:
        if name not in known:
            listed = "see `fencepost claims --list`"
            raise UsageError(f"claim {name!r} is not known{question(name, known, listed)}")
    return tuple(claim for claim in CLAIMS if not only or claim.name in only)


def edges_of(claims: Sequence[Claim]) -> list[Edge]:
    """The edges of these claims."""
    return [EDGES[claim.edge] for claim in claims if claim.edge]


def is_coarse(repeats: int) -> bool:
    """Whether edges are swept in larger steps where each script is played so often."""
    return repeats < LEAST_LOADS


def claims_grid(claims: Sequence[Claim], repeats: int, cluster: str | None) -> Grid:
    """`repeats`: of each experiment, and of an edge at each point; of loads on which a sign test decides no fewer than
    `LEAST_LOADS`, and of other loads no fewer than `LEAST_DRAWN`. `cluster`: where all of them run; None: where each of
    them chooses."""
    parts: dict[str, list[Cell]] = {}
    for trial in {trial.script: trial for claim in claims for trial in claim.trials}.values():
        options, script = (LOADS[trial.script].options, "") if trial.script in LOADS else ({}, trial.script)
        cell = Cell(trial.script, dict(options), {"experiment": trial.script}, script)
        parts.setdefault(_part_of(trial), []).append(cell)
    for edge in edges_of(claims):
        for point in edge.coarse if is_coarse(repeats) else edge.points:
            name = edge.cell(point)
            parts.setdefault("edges", []).append(Cell(name, dict(edge.options(point)), {"experiment": name}))
    return check(
        Grid(
            name="claims",
            title="What is said about locks on Redis",
            question="Which of the claims in the debate about distributed locks on Redis hold, as far as experiments "
            "can tell?",
            parts=tuple(
                Part(
                    title=title,
                    cells=tuple(cells),
                    seeds=_repeats(title, repeats),
                    options={} if cluster is None else {"cluster": cluster},
                    kind="cost" if title == "costs" else "safety",
                )
                for title, cells in parts.items()
            ),
        )
    )


def runs_of(trial: Trial, repeats: int) -> int:
    """How many runs of this trial are made where each script is played so often."""
    return _repeats(_part_of(trial), repeats)


def _part_of(trial: Trial) -> str:
    """The title of the part of the grid that has its cell."""
    load = LOADS.get(trial.script)
    if load is None:
        return "experiments"
    if load.is_cost:
        return "costs"
    return "tendencies" if trial.script in _BY_SIGN_TEST else "loads"


def _repeats(part: str, repeats: int) -> int:
    return max(repeats, {"tendencies": LEAST_LOADS, "costs": LEAST_LOADS, "loads": LEAST_DRAWN}.get(part, repeats))
