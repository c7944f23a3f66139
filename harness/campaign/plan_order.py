"""In which order the runs are made, and how long they will take.

All cells of the first seed, then all of the second: a machine that grows slower, or is disturbed for an hour, treats
all cells alike, and a campaign that is stopped early has compared what it has. The cells begin one further with each
seed, so that none always follows the pause between two rounds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from harness.campaign.grid import Grid
from harness.config import RunConfig


class Slot(NamedTuple):
    """One run of the campaign."""

    cell: str
    seed: int


def in_order(grid: Grid) -> list[Slot]:
    """Every run of the grid once."""
    slots = []
    for turn in range(max(part.seeds for part in grid.parts)):
        cells = [cell.name for part in grid.parts if turn < part.seeds for cell in part.cells]
        first = turn % len(cells)
        slots += [Slot(name, grid.first_seed + turn) for name in cells[first:] + cells[:first]]
    return slots


class Estimate:
    """How long the runs that are left will take: as long as the last ones with as much load, which may have ended
    early. Before there are any: what their configurations say, and besides what others took for coming up, going down
    and being judged."""

    def __init__(self, configs: Mapping[str, RunConfig]) -> None:
        self._configs = configs
        self._took_s: dict[float, list[float]] = {}

    def learn(self, cell: str, took_s: float) -> None:
        self._took_s.setdefault(_load_s(self._configs[cell]), []).append(took_s)

    def seconds(self, slots: Collection[Slot]) -> float:
        known = {load_s: sum(recent := took_s[-100:]) / len(recent) for load_s, took_s in self._took_s.items()}
        besides = [mean_s - load_s for load_s, mean_s in known.items() if mean_s > load_s]
        total_s = 0.0
        for config in (self._configs[slot.cell] for slot in slots):
            load_s = _load_s(config)
            guess_s = sum(besides) / len(besides) if besides else 2.0 + 0.12 * config.clients
            total_s += known.get(load_s, load_s + guess_s)
        return total_s


def _load_s(config: RunConfig) -> float:
    return (config.duration_ms + config.recovery_ms) / 1e3
