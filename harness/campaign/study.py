"""The one way in which every study is made: claim its folder, make the runs, settle, write, tell.

A study is data and rules: which runs it wants, what their lines mean, and what is said of that. The rest is here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pandas as pd
from rich.console import Console

from fencepost.errors import FencepostError
from fencepost.files import write_whole
from fencepost.text import count, plural, printable
from harness.campaign.document import Block, StudyDocument
from harness.campaign.export import runs_frame
from harness.campaign.folder import Campaign, CampaignFolder, RunLine, finished_runs
from harness.campaign.forms import forms_of
from harness.campaign.grid import Grid
from harness.campaign.parallelism import Hands
from harness.campaign.plan_order import Slot
from harness.campaign.play import Plan, make_plan, play, playable
from harness.campaign.provenance import machine_line, provenance_of
from harness.config import RunConfig
from harness.run.prepare import remove_leftovers

T = TypeVar("T")

STUDIES: Final = Path("results/studies")
"""Where studies of the user's are kept, one folder each, seen from the working directory."""


@dataclass(frozen=True, slots=True)
class Played:
    """What is on record of a study. `configs`: of the cells that this call was to play. `timelines`: what was kept to
    draw, by cell and kind of finding (`CampaignFolder.all_timelines`). `cannot`: why this machine cannot play a cell.
    `is_complete`: whether every run is there that it can play."""

    path: Path
    campaign: Campaign
    lines: Sequence[RunLine]
    configs: Mapping[str, RunConfig]
    timelines: Mapping[tuple[str, str], Mapping[str, Any]]
    cannot: Mapping[str, FencepostError]
    is_complete: bool

    @property
    def moments(self) -> dict[str, Mapping[str, Any]]:
        """Of `timelines` those of overlaps and of scripted runs, by cell."""
        return {cell: moment for (cell, finding), moment in self.timelines.items() if not finding}

    def document(
        self,
        blocks: Sequence[Block],
        numbers: Mapping[str, object],
        tables: Mapping[str, pd.DataFrame] | None = None,
        *,
        name: str = "report",
        title: str = "",
        facts: Sequence[str] = (),
        left_out: Iterable[str] = (),
    ) -> StudyDocument:
        """A document of this study that states how it was made. `tables`: by default, `runs.csv` with the figures of
        each run. `facts`: what stands below the title beside the machine. `left_out`: what was to be played, and was
        not."""
        made = provenance_of(self.campaign, self.lines, left_out)
        runs = f"{count(made.finished)} of {plural(made.planned, 'run')}"
        return StudyDocument(
            name=name,
            title=title or printable(self.campaign.grid.title),
            facts=[*(facts or [runs]), machine_line(self.campaign.machine)],
            blocks=blocks,
            made=made,
            numbers=numbers,
            tables={"runs": runs_frame(self.lines)} if tables is None else tables,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Study(Generic[T]):
    """`place`: where its record is kept. `settle`: what the record says, by rule. `document`: what is written of it,
    next to the record unless `page` is another folder; None: nothing. `tell`: says it at the terminal. `exit_code`: of
    the command.

    `leaves_out`: cells that this machine cannot play are left out; otherwise nothing is played then. `may_grow` and
    `beside`: see `CampaignFolder.claim`. `group_of`, `ends_when` and `again`: see `play`. `yes`: see `make_plan`.
    `check`: raises UsageError for a folder that the rules of this study cannot settle."""

    grid: Grid
    settle: Callable[[Played], T]
    document: Callable[[Played, T], StudyDocument | None]
    place: Path = STUDIES
    tell: Callable[[T, Console], object] = lambda *_: None
    exit_code: Callable[[Played, T], int] = lambda played, _: 0 if played.is_complete else 2
    page: Path | None = None
    leaves_out: bool = False
    may_grow: bool = False
    beside: Collection[str] = ()
    group_of: Callable[[str], str] | None = None
    ends_when: str = ""
    again: str = "the same command"
    yes: bool = True
    check: Callable[[Campaign], object] = lambda _: None


def run_study(study: Study[T], results: Path, *, hands: Hands, command: str, out: Console) -> int:
    """Make the runs that are not there yet, and write and tell what all of them show; returns the exit code. Raises
    FencepostError if nothing can be played; later, after everything was written."""
    return study.exit_code(*make_study(study, results, hands=hands, command=command, out=out))


def make_study(study: Study[T], results: Path, *, hands: Hands, command: str, out: Console) -> tuple[Played, T]:
    """The same, without an exit code."""
    plan, cannot = _planned(study, finished_runs(study.place))
    for name, error in {_group(study, cell): error for cell, error in cannot.items()}.items():
        out.print(f"{name} is left out, or a part of it: {error}", soft_wrap=True)
    campaign = Campaign.begun(study.grid, command)
    with closing(CampaignFolder.claim(study.place, campaign, may_grow=study.may_grow, beside=study.beside)) as folder:
        study.check(folder.campaign)
        if folder.campaign.revision != campaign.revision:
            out.print(
                f"this campaign began at revision {folder.campaign.revision or 'unknown'}, now it is "
                f"{campaign.revision or 'unknown'}; each run says which one made it"
            )
        remove_leftovers(out)
        is_complete = False
        try:
            is_complete = play(
                plan, folder, results, campaign.revision, out,
                again=study.again, hands=hands, ends_when=study.ends_when, group_of=study.group_of,
            )  # fmt: skip
        finally:
            played = read_played(folder, plan.configs, cannot, is_complete=is_complete)
            settled = study.settle(played)
            if (document := study.document(played, settled)) is not None:
                write_document(document, study.page or folder.path)
    study.tell(settled, out)
    if document is not None:
        out.print(f"page: {(study.page or folder.path) / 'index.html'}", soft_wrap=True)
    return played, settled


def _group(study: Study[T], cell: str) -> str:
    return study.group_of(cell) if study.group_of else cell


def _planned(study: Study[T], finished: Collection[Slot]) -> tuple[Plan, Mapping[str, FencepostError]]:
    if not study.leaves_out:
        return make_plan(study.grid, yes=study.yes, finished=finished), {}
    plan, cannot = playable(study.grid, finished)
    if plan is None:
        raise next(iter(cannot.values()))
    return plan, cannot


def read_played(
    folder: CampaignFolder,
    configs: Mapping[str, RunConfig],
    cannot: Mapping[str, FencepostError] | None = None,
    *,
    is_complete: bool = False,
) -> Played:
    return Played(
        folder.path, folder.campaign, folder.lines(), configs, folder.all_timelines(), cannot or {}, is_complete
    )


def write_document(document: StudyDocument, place: Path) -> None:
    """Write every form of it."""
    for name, content in forms_of(document).items():
        write_whole(place / name, content)
