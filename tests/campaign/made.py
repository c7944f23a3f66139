"""Campaigns that nobody ran: lines as a run would leave them, and a grid of two axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.campaign.folder import Campaign, RunLine
from harness.campaign.grid import Grid, check, from_axes
from harness.campaign.measure import Figures
from harness.campaign.study import Played
from harness.options import parse_run

AXES = ("persistence=none,aof-always", "clients=2,4")


def grid(*axes: str, seeds: int = 2, **common: str) -> Grid:
    return check(from_axes(axes or AXES, seeds, 1, common or {"cluster": "process", "lock": "redlock"}))


def campaign(of: Grid | None = None) -> Campaign:
    return Campaign(grid=of or grid(), revision="1a2b3c", command="fencepost compare", machine={"cores": 2})


def played(
    of: Grid | None,
    lines: Sequence[RunLine],
    moments: Mapping[str, Mapping[str, object]] | None = None,
    *,
    of_campaign: Campaign | None = None,
) -> Played:
    """What is on record of such a campaign. `moments`: by cell."""
    begun = of_campaign or campaign(of)
    configs = {
        name: parse_run(begun.grid.words(name, 1)) for name, (_, cell) in begun.grid.cells.items() if not cell.script
    }
    timelines = {(cell, ""): moment for cell, moment in (moments or {}).items()}
    return Played(Path("report"), begun, lines, configs, timelines, {}, is_complete=False)


def figures(**changed: Any) -> Figures:
    whole: dict[str, Any] = {
        "sections": 100,
        "overlaps": {"lock": 0, "client": 0, "undecided": 0},
        "node_outages": 10,
        "node_outages_hit": 0,
        "opportunities": 8,
        "opportunities_hit": 0,
        "load_s": 10.0,
        "grants": 90,
        "reachable_s": 9.5,
        "acquire": {20: 80, 120: 10},
        "acknowledged": 100,
    }
    return Figures(**whole | changed)


def line(cell: str, seed: int, *, hit: int = 0, **changed: Any) -> RunLine:
    overlaps = {"lock": hit, "client": 0, "undecided": 0}
    found = figures(**{"overlaps": overlaps, "node_outages_hit": hit, "opportunities_hit": hit} | changed)
    word = "violation" if hit else "valid"
    return RunLine(cell=cell, seed=seed, folder=f"run-{cell}-{seed}", verdict=word, took_s=15, figures=found)


def lines(of: Grid) -> list[RunLine]:
    """Every run is there; the cells with `none` were hit in each, the others never."""
    return [
        line(cell.name, seed, hit=3 if cell.name.startswith("none") else 0)
        for part in of.parts
        for cell in part.cells
        for seed in range(of.first_seed, of.first_seed + part.seeds)
    ]
