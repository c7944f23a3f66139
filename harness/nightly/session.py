"""What `fencepost nightly` does: play what failed the night before, the controls and the locks whose turn it is, and
write the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final

from rich.console import Console

from fencepost.files import write_whole
from fencepost.text import plural
from harness.campaign.folder import Campaign, CampaignFolder, finished_runs
from harness.campaign.hands import Hands
from harness.campaign.play import play
from harness.nightly.changes import changes
from harness.nightly.grid import nightly_grid
from harness.nightly.nights import Night, failing_of, keep_night, played_of, read_nights
from harness.nightly.page import headline, render_page
from harness.run.prepare import remove_leftovers
from harness.survey.grid import playable
from harness.survey.subjects import Subject

REPORT: Final = Path("results/nightly")
"""Where nights are kept, seen from the working directory, unless something else is said."""
_SEEDS_A_NIGHT: Final = 1_000


def first_seed_of(night: date) -> int:
    """Other seeds each night."""
    return night.toordinal() * _SEEDS_A_NIGHT


def run_nightly(
    report: Path | None,
    results: Path,
    *,
    night: date,
    subjects: Sequence[Subject],
    clusters: Sequence[str],
    budget_s: float,
    quick: bool,
    hands: Hands,
    command: str,
    out: Console,
) -> int:
    """Make the runs of this night that are not there yet, and write the page. 0: every control was caught, and no
    correct lock blamed; 1: not so; 2: runs are missing. A lock that this machine cannot play is said, and left out."""
    place = report or REPORT
    earlier = [each for each in read_nights(place) if each.date < night.isoformat()]
    failing = earlier[-1].failing if earlier else ()
    asked = nightly_grid(subjects, clusters, first_seed_of(night), failing, budget_s=budget_s, quick=quick)
    tonights = place / night.isoformat()
    plan, errors = playable(asked, finished_runs(tonights))
    if plan is None:
        raise next(iter(errors.values()))
    for cell, error in errors.items():
        out.print(f"{cell} is left out: {error}", soft_wrap=True)

    def lock_of(cell: str) -> str:
        return asked.at(cell)["lock"]

    campaign = Campaign.begun(plan.grid, command)
    folder = CampaignFolder.claim(tonights, campaign)
    try:
        remove_leftovers(out)
        play(plan, folder, results, campaign.revision, out, hands=hands, group_of=lock_of)
        lines = folder.lines()
    finally:
        folder.close()
    tonight = Night(
        date=night.isoformat(),
        revision=campaign.revision,
        first_seed=plan.grid.first_seed,
        played=played_of(plan.grid, lines),
        failing=failing_of(plan.grid, lines),
        missing=asked.run_count - sum(line.is_final for line in lines),
    )
    nights = keep_night(place, tonight)
    if tonight.played:
        write_whole(place / "index.html", render_page([each for each in nights if each.date <= tonight.date]))
    for text in changes(nights):
        out.print(text, soft_wrap=True)
    out.print(f"{headline(tonight)}.", soft_wrap=True)
    out.print(f"{plural(len(tonight.failing), 'failing seed')} to be played first the next night", soft_wrap=True)
    out.print(f"page: {place / 'index.html'}", soft_wrap=True)
    return {"green": 0, "red": 1, "unfinished": 2}[tonight.colour]
