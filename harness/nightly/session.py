"""`fencepost nightly` as a study: what failed the night before, the controls, and the locks whose turn it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from fencepost.text import plural
from harness.campaign.study import Played, Study
from harness.nightly.grid import nightly_grid
from harness.nightly.nights import Night, changes, failing_of, keep_night, played_of, read_nights
from harness.nightly.page import document_of, headline
from harness.run.environment import revision_in_words
from harness.survey.subjects import Subject

REPORT: Final = Path("results/nightly")
"""Where nights are kept, seen from the working directory, unless something else is said."""
_SEEDS_A_NIGHT: Final = 1_000


def first_seed_of(night: date) -> int:
    """Other seeds each night."""
    return night.toordinal() * _SEEDS_A_NIGHT


def nightly_study(
    report: Path | None,
    *,
    night: date,
    subjects: Sequence[Subject],
    clusters: Sequence[str],
    budget_s: float,
    quick: bool,
) -> Study[list[Night]]:
    """The runs of this night; its page stands above their record. Exit code 0: every control was caught, and no correct
    lock blamed; 1: otherwise; 2: runs are missing. A lock that this machine cannot play is left out."""
    place = report or REPORT
    earlier = [each for each in read_nights(place) if each.date < night.isoformat()]
    failing = earlier[-1].failing if earlier else ()
    grid = nightly_grid(subjects, clusters, first_seed_of(night), failing, budget_s=budget_s, quick=quick)
    return Study(
        grid=grid,
        place=place / night.isoformat(),
        page=place,
        settle=partial(settle, night, place),
        document=document_of,
        tell=tell,
        exit_code=lambda _, nights: {"green": 0, "red": 1, "unfinished": 2}[nights[-1].colour],
        leaves_out=True,
        group_of=lambda cell: grid.at(cell)["lock"],
    )


def settle(night: date, place: Path, played: Played) -> list[Night]:
    """Keep this night among the others; returns all up to it."""
    grid = played.campaign.grid
    tonight = Night(
        date=night.isoformat(),
        revision=revision_in_words(),
        first_seed=grid.first_seed,
        played=played_of(grid, played.lines),
        failing=failing_of(grid, played.lines),
        missing=grid.run_count - sum(line.is_final for line in played.lines),
    )
    return [each for each in keep_night(place, tonight) if each.date <= tonight.date]


def tell(nights: list[Night], out: Console) -> None:
    tonight = nights[-1]
    for text in (
        *changes(nights),
        f"{headline(tonight)}.",
        f"{plural(len(tonight.failing), 'failing seed')} to be played first the next night",
    ):
        out.print(text, soft_wrap=True)
