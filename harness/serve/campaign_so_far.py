"""A campaign that is under way, as its folder shows it: how many runs are made, and what they say so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from fencepost.text import count, plural, printable
from harness.campaign import wording
from harness.campaign.folder import Campaign, RunLine, read_campaign, read_run_lines
from harness.campaign.grid import Cell as GridCell
from harness.campaign.progress import in_words
from harness.campaign.statistics import rate
from harness.serve.live_message import Cell, LiveMessage
from harness.store.folder_lock import is_held

_NEWEST: Final = 8


@dataclass(slots=True)
class CampaignSoFar:
    """Follows one campaign. `root`: what every address begins with."""

    path: Path
    root: str

    @property
    def is_over(self) -> bool:
        """Whether no process is running it: it is finished, or was interrupted."""
        return not is_held(self.path)

    def look(self) -> LiveMessage:
        """Raises UsageError if it cannot be read."""
        campaign, lines = read_campaign(self.path), read_run_lines(self.path)
        made = [line for line in lines if line.is_final]
        planned = campaign.grid.run_count
        return LiveMessage(
            texts={
                "state": self._state(campaign, lines, len(made)),
                "violations": count(sum(line.verdict == "violation" for line in lines)),
                "broke-off": count(sum(line.error is not None for line in lines)),
            },
            share=len(made) / planned if planned else 0.0,
            rows={
                "groups": _groups(campaign, lines),
                "newest": [self._newest(line) for line in reversed(lines[-_NEWEST:])],
            },
        )

    def _state(self, campaign: Campaign, lines: Sequence[RunLine], made: int) -> str:
        planned = campaign.grid.run_count
        if made >= planned:
            return f"All {plural(planned, 'run')} are made."
        text = f"{made:,} of {plural(planned, 'run')} made"
        if self.is_over:
            return f"{text}; no process is making the others. Resume with the command that began it."
        recent = [line for line in lines if line.error is None][-100:]
        if not recent:
            return f"{text}."
        seconds = (planned - made) * sum(line.took_s / line.at_once for line in recent) / len(recent)
        return f"{text}, about {in_words(seconds)} left."

    def _newest(self, line: RunLine) -> list[Cell]:
        run = f"{self.root}runs/{quote(line.folder, safe='')}/" if line.folder else ""
        says = line.error or line.violation or ""
        return [
            Cell(f"{printable(line.cell)}, seed {line.seed}", href=run),
            Cell(line.verdict if line.outcome is None else line.outcome, tone=line.verdict),
            Cell(printable(says)),
        ]


def _groups(campaign: Campaign, lines: Sequence[RunLine]) -> Sequence[Sequence[Cell]]:
    """A row for each value of the first axis: how many of its runs are made, and their rate of violations."""
    cells = campaign.grid.cells
    planned: Counter[str] = Counter()
    for part, cell in cells.values():
        planned[_group(cell)] += part.seeds
    by_group: dict[str, list[RunLine]] = {group: [] for group in planned}
    for line in lines:
        if line.cell in cells:
            by_group[_group(cells[line.cell][1])].append(line)
    return [
        [Cell(printable(group)), Cell(f"{len(some)} of {planned[group]}"), _rate(some)]
        for group, some in by_group.items()
    ]


def _group(cell: GridCell) -> str:
    return next(iter(cell.at.values()), cell.name)


def _rate(lines: Sequence[RunLine]) -> Cell:
    if outcomes := [line.outcome for line in lines if line.outcome in ("held", "failed")]:
        return Cell(f"as expected in {wording.counted(rate(outcomes.count('held'), len(outcomes)))}")
    judged = [line.verdict for line in lines if line.verdict in ("valid", "violation")]
    if not judged:
        return Cell("")
    found = rate(judged.count("violation"), len(judged))
    return Cell(f"violations in {wording.counted(found)}", tone="violation" if found.events else "valid")
