"""Make the runs of a campaign, one after the other or side by side, through the same code as `fencepost test`."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from fencepost.errors import UsageError
from fencepost.text import plural
from harness.campaign.folder import CampaignFolder, RunLine
from harness.campaign.grid import Grid
from harness.campaign.one_run import HasShownEnough, Made, Order, make
from harness.campaign.order import Estimate, Slot, in_order
from harness.config import RunConfig
from harness.options import parse_run
from harness.report.progress import Progress
from harness.run.interruption import Interruption
from harness.run.outside import more_runs_follow
from harness.run.prepare import prepare

MOST_RUNS: Final = 10_000
_PLAIN_INTERVAL_S: Final = math.inf
_BREAKS_IN_A_ROW: Final = 3
_HUNG_AFTER: Final = 3.0
_AT_LEAST_S: Final = 300.0
"""A run beside others has three times its load to be over, and five minutes more, to come up and be judged."""

Outcomes = Generator[tuple[Order, Made], None, None]
"""What was made of each order, as it comes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A grid of which every cell was checked."""

    grid: Grid
    configs: Mapping[str, RunConfig]


def make_plan(grid: Grid, *, yes: bool) -> Plan:
    """Check everything that can be checked before the first run. Raises UsageError, naming the cell; also for a grid of
    more than 10,000 runs without `yes`."""
    if grid.run_count > MOST_RUNS and not yes:
        raise UsageError(
            f"these are {grid.run_count:,} runs ({len(grid.cells):,} cells); more than {MOST_RUNS:,} need --yes"
        )
    configs = {}
    for name in grid.cells:
        try:
            configs[name] = parse_run(grid.words(name, grid.first_seed))
            prepare(configs[name])
        except UsageError as error:
            raise UsageError(f"cell {name!r}: {error}") from None
    return Plan(grid, configs)


def play(
    plan: Plan,
    folder: CampaignFolder,
    results: Path,
    revision: str,
    out: Console,
    enough: HasShownEnough | None = None,
    again: str = "the same command",
    workers: int = 1,
) -> bool:
    """Make the runs that `folder` has not yet; whether all of them are there now. Ctrl-C ends it with what there is.
    `enough` is asked now and then whether the run under way has shown all that is wanted; it needs runs one at a time.
    `again`: what goes on then. `workers`: how many runs are made side by side; runs that measure costs, and runs that
    the others disturbed too much, are made alone afterwards.

    A run that breaks off is recorded as such, and made again when the campaign is resumed; three in a row end it.
    Raises FencepostError then, and UsageError if the lines on record are not of this grid.
    """
    todo = _announce(plan, folder, out, workers)
    with Interruption().watch() as interruption:
        session = _Session(plan, folder, out, interruption, again, len(todo))

        def orders(slots: Sequence[Slot], at_once: int) -> list[Order]:
            return [
                Order(
                    cell=slot.cell,
                    seed=slot.seed,
                    words=tuple(plan.grid.words(*slot)),
                    results=str(results.absolute()),
                    revision=revision,
                    at_once=at_once,
                )
                for slot in slots
            ]

        if together := _beside_others(plan, folder, todo, workers):
            session.take(_side_by_side(orders(together, workers), session, workers))
            todo = _unmade(plan, folder)
            if todo and not interruption:
                out.print(f"{plural(len(todo), 'run')} to make alone, because others would disturb or disturbed them")
        if todo and not interruption:
            session.take(_one_by_one(orders(todo, 1), session, enough))
    return not _unmade(plan, folder)


class _Session:
    """Keeps the record of a campaign while its runs are made."""

    def __init__(
        self, plan: Plan, folder: CampaignFolder, out: Console, interruption: Interruption, again: str, runs: int
    ) -> None:
        self.plan = plan
        self.out = out
        self.interruption = interruption
        self.estimate = Estimate(plan.configs)
        self._folder = folder
        self._again = again
        self._runs = runs
        self._done = 0
        self._broke = 0
        self._kept = set(folder.timelines())

    def heading(self, left: Sequence[Slot], at_once: int = 1) -> str:
        """`3/12, 4 min left`, when these are still to be made or under way."""
        seconds = self.estimate.seconds(left) / min(at_once, max(1, len(left)))
        return f"{min(self._done + 1, self._runs)}/{self._runs}, {_time(seconds)} left"

    def take(self, outcomes: Outcomes) -> None:
        """Record what comes, until all has come or the user asks to stop. Raises what the third run in a row broke off
        with."""
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
        if made.moment is not None and line.cell not in self._kept:
            self._folder.keep_timeline(line.cell, made.moment)
            self._kept.add(line.cell)
        self._folder.append(line)
        if made.failure is None:
            self.estimate.learn(line.cell, line.took_s)
            self._broke = 0
            return
        self._broke += 1
        where = f"; see {Path(order.results) / line.folder}" if line.folder else ""
        self.out.print(f"{order.cell}, seed {order.seed}: the run broke off ({made.failure.text}){where}")
        if self._broke == _BREAKS_IN_A_ROW:
            raise made.failure.error()


def _one_by_one(orders: Sequence[Order], session: _Session, enough: HasShownEnough | None) -> Outcomes:
    with more_runs_follow():
        for done, order in enumerate(orders):
            left = session.heading([each.slot for each in orders[done:]])
            heading = f"[{left}] {order.cell}, seed {order.seed}"
            progress = Progress(session.out, plain_interval_s=_PLAIN_INTERVAL_S, heading=heading)
            yield order, make(order, progress, lambda: bool(session.interruption), enough)


def _side_by_side(orders: Sequence[Order], session: _Session, workers: int) -> Outcomes:
    # Dask takes a second to import, which is only waited for where it is used.
    from harness.campaign.side_by_side import local_workers
    from harness.campaign.workers_view import WorkersView

    left = {order.slot: None for order in orders}

    def limit_s(order: Order) -> float:
        config = session.plan.configs[order.cell]
        return _AT_LEAST_S + _HUNG_AFTER * (config.duration_ms + config.recovery_ms) / 1e3

    with WorkersView(session.out) as view, local_workers(min(workers, len(orders)), view) as ready:
        view.heading = f"[{session.heading(list(left), workers)}]"
        with closing(ready.play(orders, limit_s, lambda: bool(session.interruption))) as outcomes:
            for order, made in outcomes:
                del left[order.slot]
                yield order, made
                view.heading = f"[{session.heading(list(left), workers)}]"
                if not view.is_live:
                    verdict = made.line.verdict if made.line else "broke off"
                    session.out.print(f"{view.heading} {order.cell}, seed {order.seed}: {verdict}", soft_wrap=True)


def _announce(plan: Plan, folder: CampaignFolder, out: Console, workers: int) -> list[Slot]:
    """Say what will be done; the runs that are to be made."""
    lines = folder.lines()
    if foreign := {line.slot for line in lines} - set(in_order(plan.grid)):
        raise UsageError(f"{folder.path / 'runs.jsonl'} has a run of no cell of this grid: {sorted(foreign)[0].cell!r}")
    todo = _unmade(plan, folder)
    seeds = sorted({part.seeds for part in plan.grid.parts})
    out.print(
        f"{plan.grid.title}: {plural(plan.grid.run_count, 'run')} "
        f"({plural(len(plan.grid.cells), 'cell')}, {' or '.join(map(str, seeds))} seeds each)",
    )
    if lines:
        again = sum(line.error is not None for line in lines)
        retried = f", {again} that broke off will be made again" if again else ""
        finished = sum(line.is_final for line in lines)
        out.print(f"found {finished} of them finished in {folder.path}{retried}")
    if todo:
        estimate = Estimate(plan.configs)
        for line in lines:
            if line.error is None:
                estimate.learn(line.cell, line.took_s)
        together = len(_beside_others(plan, folder, todo, workers))
        alone = len(todo) - together
        ways = f", {workers} at once" + (f", {alone} of them alone" if alone else "") if together else ""
        seconds = estimate.seconds(todo) * (together / max(1, min(workers, together)) + alone) / len(todo)
        out.print(f"{plural(len(todo), 'run')} to make{ways}, about {_time(seconds)}")
    return todo


def _unmade(plan: Plan, folder: CampaignFolder) -> list[Slot]:
    """The runs that are still to be made, in order."""
    finished = {line.slot for line in folder.lines() if line.is_final}
    return [slot for slot in in_order(plan.grid) if slot not in finished]


def _beside_others(plan: Plan, folder: CampaignFolder, todo: Sequence[Slot], workers: int) -> list[Slot]:
    """Those of the runs that may be made at the same time: not those that measure costs, nor those that others beside
    them disturbed the last time."""
    if workers == 1:
        return []
    disturbed = {line.slot for line in folder.lines() if line.error is None and not line.is_final}
    costs = {cell.name for part in plan.grid.parts if part.kind == "cost" for cell in part.cells}
    return [slot for slot in todo if slot.cell not in costs and slot not in disturbed]


def _time(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`: what a person plans with."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
