"""The report folder: what the campaign is, one line for every finished run, and what is drawn from them.

results/reports/fsync/
  campaign.json     the grid, the git revision and the machine it began on; a folder without it is no campaign's
  runs.jsonl        a line for each run, appended in one write(2) after its verdict
  timelines/*.json  a moment of the first violation of each cell that has one, and of each other kind of finding
  index.html  report.md  cells.csv  runs.csv  report.json    drawn from the above, at any time again
"""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from fencepost.errors import UsageError
from fencepost.files import kind_of, read_document, read_json, write_whole
from harness.campaign.grid import Cell, Grid, Part
from harness.campaign.measure import Figures
from harness.campaign.plan_order import Slot
from harness.run.environment import revision_in_words
from harness.store.append_log import AppendLog, read_lines
from harness.store.folder_lock import hold

_SCHEMA: Final = 2
"""1: runs required `lease` unless they said otherwise."""


class RunLine(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One finished run. `folder`: its name in the folder of runs. `error`: why it was aborted; then it has no figures
    and is made again when the campaign is resumed. `violation`: the verdict's text. `at_once`: how many runs were made
    at the same time. `versions`: of what it was made with (`harness.campaign.provenance`). `outcome`: of an experiment,
    whether its expectation held; `unknown` if the run shows neither."""

    cell: str
    seed: int
    folder: str
    verdict: str
    took_s: float
    revision: str = ""
    error: str | None = None
    violation: str | None = None
    figures: Figures | None = None
    at_once: int = 1
    outcome: Literal["held", "failed", "unknown"] | None = None
    versions: dict[str, str] = {}

    @property
    def slot(self) -> Slot:
        return Slot(self.cell, self.seed)

    @property
    def is_final(self) -> bool:
        """Whether it need not be made again. What others disturbed is made again alone."""
        disturbed = self.at_once > 1 and self.figures is not None and bool(self.figures.disturbed)
        return self.error is None and not disturbed


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """`campaign.json`. `command`: what makes its runs again; a campaign that grew has several, one a line. `machine`:
    kernel, cores, the disk's fsync latency, … as they were at the beginning."""

    grid: Grid
    revision: str
    command: str
    machine: dict[str, Any]
    schema_version: int = _SCHEMA

    @classmethod
    def begun(cls, grid: Grid, command: str) -> Campaign:
        """One that begins now, with what is installed here."""
        machine = {"kernel": platform.release(), "cores": os.cpu_count(), "python": platform.python_version()}
        return cls(grid=grid, revision=revision_in_words(), command=command, machine=machine)


class _Of(msgspec.Struct):
    cell: str
    finding: str = ""


class CampaignFolder:
    """A report folder that is held by this process alone until it is closed."""

    def __init__(self, path: Path, campaign: Campaign, held: int) -> None:
        self.path = path
        self.campaign = campaign
        self._held = held

    @classmethod
    def claim(
        cls, path: Path, campaign: Campaign, *, may_grow: bool = False, beside: Collection[str] = ()
    ) -> CampaignFolder:
        """The folder of this campaign: a new one, or the one that was begun for the same grid. If it `may_grow`, cells
        and seeds are added to those of the grid that it was begun for. `beside`: what may be there already.

        Raises UsageError if what is there is something else, or if another process holds it.
        """
        file = path / "campaign.json"
        here, begun_here = kind_of(path), kind_of(path) == "folder" and kind_of(file) == "file"
        if here is not None and not begun_here and (here != "folder" or _strangers(path, beside)):
            raise UsageError(f"{path} exists and is no campaign's folder; name another one with --report")
        path.mkdir(parents=True, exist_ok=True)
        held = hold(path)
        if held is None:
            raise UsageError(f"another process is running the campaign in {path}; wait for it to end")
        try:
            begun = _read(file) if begun_here else None
            if begun is not None:
                campaign = _continued(path, begun, campaign, may_grow=may_grow)
            if campaign != begun:
                write_whole(file, msgspec.json.format(msgspec.json.encode(campaign)) + b"\n")
        except BaseException:
            os.close(held)
            raise
        return cls(path, campaign, held)

    def close(self) -> None:
        os.close(self._held)

    def lines(self) -> list[RunLine]:
        """The newest line of each cell and seed, in the order in which they were written. Half a line at the very end
        is removed from the file: that run's verdict was never recorded."""
        log = self.path / "runs.jsonl"
        if kind_of(log) is None:
            return []
        content = read_document(log)
        if not content.endswith(b"\n"):
            os.truncate(log, content.rfind(b"\n") + 1)
        return read_run_lines(self.path)

    def append(self, line: RunLine) -> None:
        with AppendLog(self.path / "runs.jsonl") as log:
            log.append(line)

    def all_timelines(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Every moment that was kept, by cell and kind of finding; that kind is empty for an overlap, and for all of a
        scripted run."""
        paths = sorted((self.path / "timelines").glob("*.json"))
        found = ((read_json(path, _Of), read_json(path, dict[str, Any])) for path in paths)
        return {(of.cell, of.finding): moment for of, moment in found}

    def keep_timeline(self, cell: str, moment: Mapping[str, object]) -> None:
        """Keep this moment, the only one of its cell and kind of finding."""
        folder = self.path / "timelines"
        folder.mkdir(exist_ok=True)
        number = sum(1 for _ in folder.glob("*.json")) + 1
        write_whole(folder / f"{number:03}.json", msgspec.json.encode({"cell": cell, **moment}))


def read_campaign(path: Path) -> Campaign:
    """The campaign in this folder, held or not. Raises UsageError if it cannot be read."""
    return _read(path / "campaign.json")


def read_run_lines(path: Path) -> list[RunLine]:
    """What `CampaignFolder.lines` returns, even while it is held; nothing is changed."""
    log = path / "runs.jsonl"
    pieces = read_lines(log, RunLine) if kind_of(log) is not None else ()
    return list({line.slot: line for piece in pieces for line in piece}.values())


def finished_runs(path: Path) -> frozenset[Slot]:
    """The runs that the campaign in this folder need not make again; none if the folder holds no campaign."""
    if kind_of(path / "campaign.json") != "file":
        return frozenset()
    return frozenset(line.slot for line in read_run_lines(path) if line.is_final)


def _strangers(path: Path, beside: Collection[str]) -> bool:
    return any(entry.name not in beside for entry in path.iterdir())


def _continued(path: Path, begun: Campaign, asked: Campaign, *, may_grow: bool) -> Campaign:
    """The campaign that was begun, with what is asked for added to it. Raises UsageError if the two do not fit. Texts
    for readers may be other ones."""
    reworded = begun.grid.worded_as(asked.grid)
    grid = reworded.grown(asked.grid) if may_grow else asked.grid
    if grid is None or (grid != reworded and not may_grow):
        raise UsageError(
            f"{path} holds another campaign ({begun.grid.title}; {_difference(begun.grid, asked.grid)}); "
            "name another folder with --report, or remove this one"
        )
    commands = begun.command if grid == reworded else f"{begun.command}\n{asked.command}"
    return msgspec.structs.replace(begun, grid=grid, command=commands)


def _read(file: Path) -> Campaign:
    campaign = read_json(file, Campaign)
    if campaign.schema_version > _SCHEMA:
        raise UsageError(f"{file} has schema {campaign.schema_version}; this fencepost reads up to {_SCHEMA}")
    if campaign.schema_version == 1:
        return msgspec.structs.replace(campaign, grid=_with_what_was_required(campaign.grid), schema_version=_SCHEMA)
    return campaign


def _with_what_was_required(grid: Grid) -> Grid:
    """The grid of an older fencepost, whose runs required `lease` by default."""

    def cell(part: Part, cell: Cell) -> Cell:
        if cell.script or "require" in {**part.options, **cell.options}:
            return cell
        return msgspec.structs.replace(cell, options={**cell.options, "require": "lease"})

    parts = (msgspec.structs.replace(part, cells=tuple(cell(part, one) for one in part.cells)) for part in grid.parts)
    return msgspec.structs.replace(grid, parts=tuple(parts))


def _difference(begun: Grid, asked: Grid) -> str:
    there, here = set(begun.cells), set(asked.cells)
    if there != here:
        return f"{len(there - here)} of its cells are not in this one, {len(here - there)} are new"
    seeds: Sequence[int] = [sum(part.seeds for part in grid.parts) for grid in (begun, asked)]
    return "with other seeds" if seeds[0] != seeds[1] or begun.first_seed != asked.first_seed else "with other options"
