"""The record of a campaign while its runs are made, and its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from fencepost.text import plural
from harness.campaign.folder import CampaignFolder, RunLine
from harness.campaign.one_run import Made, Order
from harness.campaign.plan_order import Estimate, Slot
from harness.config import RunConfig
from harness.run.interruption import Interruption

_BREAKS_IN_A_ROW: Final = 3

Outcomes = Generator[tuple[Order, Made], None, None]
"""What was made of each order, as it comes."""


class Record:
    """Keeps the record of a campaign while its runs are made."""

    def __init__(
        self,
        configs: Mapping[str, RunConfig],
        folder: CampaignFolder,
        out: Console,
        interruption: Interruption,
        again: str,
        runs: int,
        group_of: Callable[[str], str] | None = None,
    ) -> None:
        """`group_of`: by cell, whose runs it is among; see `take`. None: all are one group, without which nothing goes
        on."""
        self.out = out
        self.interruption = interruption
        self.estimate = Estimate(configs)
        self._folder = folder
        self._again = again
        self._runs = runs
        self._done = 0
        self._group_of = group_of
        self._broke = Counter[str]()
        self._given_up = set[str]()
        self._kept = set(folder.all_timelines())

    def heading(self, left: Sequence[Slot], at_once: int = 1) -> str:
        """`3/12, 4 min left`, when these are still to be made or under way."""
        seconds = self.estimate.seconds(left) / min(at_once, max(1, len(left)))
        return f"{min(self._done + 1, self._runs)}/{self._runs}, {in_words(seconds)} left"

    def is_given_up(self, order: Order | Slot) -> bool:
        """Whether no more runs of its group are wanted, because three in a row were aborted."""
        return self._group(order) in self._given_up

    def take(self, outcomes: Outcomes) -> None:
        """Record what comes, until all has come or the user asks to stop. When three runs of a group in a row broke
        off, the others go on without it; if there is only one group, raises the error that aborted the third run."""
        counted = True
        for order, made in outcomes:
            counted = made.line is not None or made.failure is not None
            if not counted:
                break
            self._record(order, made)
            if self.interruption:
                break
        if self.interruption or not counted:
            unfinished = "" if counted else ", the one under way does not count"
            runs = f"{plural(self._done, 'run')} of {self._runs} made{unfinished}"
            self.out.print(f"interrupted; {runs}. {self._again[0].upper()}{self._again[1:]} goes on from here.")

    def _record(self, order: Order, made: Made) -> None:
        line = made.line
        if line is None:
            assert made.failure is not None
            line = RunLine(
                cell=order.cell, seed=order.seed, folder="", verdict="broke off", took_s=0, revision=order.revision,
                error=made.failure.text, at_once=order.at_once,
            )  # fmt: skip
        self._done += 1
        if made.moment is not None and (kept := (line.cell, str(made.moment.get("finding", "")))) not in self._kept:
            self._folder.keep_timeline(line.cell, made.moment)
            self._kept.add(kept)
        self._folder.append(line)
        if made.failure is None:
            self.estimate.learn(line.cell, line.took_s)
            self._broke[self._group(order)] = 0
            return
        self._broke[self._group(order)] += 1
        where = f"; see {Path(order.results) / line.folder}" if line.folder else ""
        self.out.print(f"{order.cell}, seed {order.seed}: run aborted ({made.failure.text}){where}")
        if self._broke[self._group(order)] == _BREAKS_IN_A_ROW:
            if self._group_of is None:
                raise made.failure.error()
            self._given_up.add(self._group(order))
            self.out.print(f"{self._group(order)}: three runs in a row were aborted; its other runs are left out")

    def _group(self, order: Order | Slot) -> str:
        return "" if self._group_of is None else self._group_of(order.cell)


def in_words(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`: what a person plans with."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
