"""Make the runs of a campaign, one after the other or in parallel, through the same code as `fencepost test`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from fencepost.errors import BrokenEnvironmentError, FencepostError, UsageError
from fencepost.text import plural
from harness.campaign.concurrency import FindingPace, Pace
from harness.campaign.equipment import equipment
from harness.campaign.folder import CampaignFolder, finished_runs
from harness.campaign.grid import Grid
from harness.campaign.one_run import Order, config_of, make
from harness.campaign.parallelism import ALONE, Hands
from harness.campaign.plan_order import Estimate, Slot, in_order
from harness.campaign.progress import Outcomes, Record, in_words
from harness.config import RunConfig
from harness.report.progress import Progress
from harness.run.interruption import Interruption
from harness.run.sandbox_parent import more_runs_follow

MOST_RUNS: Final = 10_000
_PLAIN_INTERVAL_S: Final = math.inf
_HUNG_AFTER: Final = 3.0
_AT_LEAST_S: Final = 300.0
"""A run beside others has three times its load to be over, and five minutes more, to come up and be judged."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A grid of which every cell was checked."""

    grid: Grid
    configs: Mapping[str, RunConfig]


def make_plan(grid: Grid, *, yes: bool, finished: Collection[Slot] = ()) -> Plan:
    """Check everything that can be checked before the first run. Raises UsageError, naming the cell; also for a grid of
    more than 10,000 runs without `yes`. `finished`: see `cell_config`."""
    if grid.run_count > MOST_RUNS and not yes:
        raise UsageError(
            f"these are {grid.run_count:,} runs ({len(grid.cells):,} cells); more than {MOST_RUNS:,} need --yes"
        )
    plan, cannot = playable(grid, finished)
    for name, error in cannot.items():
        raise UsageError(f"cell {name!r}: {error}") if isinstance(error, UsageError) else error
    assert plan is not None
    return plan


def playable(grid: Grid, finished: Collection[Slot] = ()) -> tuple[Plan | None, dict[str, FencepostError]]:
    """The plan of those cells that this machine can play, None if it can play none; and why it cannot play the others,
    by cell: a library that is not installed, for example. `finished`: see `cell_config`."""
    configs: dict[str, RunConfig] = {}
    cannot: dict[str, FencepostError] = {}
    for name in grid.cells:
        try:
            configs[name] = cell_config(grid, name, finished)
        except (UsageError, BrokenEnvironmentError) as error:
            cannot[name] = error
    parts = (
        msgspec.structs.replace(part, cells=tuple(cell for cell in part.cells if cell.name in configs))
        for part in grid.parts
    )
    left = msgspec.structs.replace(grid, parts=tuple(part for part in parts if part.cells))
    return (Plan(left, configs) if configs else None), cannot


def cell_config(grid: Grid, cell: str, finished: Collection[Slot]) -> RunConfig:
    """The configuration of a cell's runs, after a check that this machine can make the ones that are not `finished`: a
    report whose runs are all on record is drawn on a machine without their locks, servers and engine. Raises UsageError
    and BrokenEnvironmentError."""
    part, found = grid.cells[cell]
    seeds = range(grid.first_seed, grid.first_seed + part.seeds)
    to_be_made = any(Slot(cell, seed) not in finished for seed in seeds)
    return config_of(found.script, grid.words(cell, grid.first_seed), to_be_made=to_be_made)


def play(
    plan: Plan,
    folder: CampaignFolder,
    results: Path,
    revision: str,
    out: Console,
    again: str = "the same command",
    hands: Hands = ALONE,
    ends_when: str = "",
    group_of: Callable[[str], str] | None = None,
) -> bool:
    """Make the runs that `folder` has not yet; whether all of them are there now. Ctrl-C ends it with what there is.
    `again`: what goes on then. `ends_when`: what ends a run early (`Order`). Where many `hands` make runs, the runs
    that measure costs, and the ones that the others disturbed too much, are made alone on this machine afterwards.

    An aborted run is recorded as such, and made again when the campaign is resumed; three in a row end it.
    Raises FencepostError then, and UsageError if the lines on record are not of this grid. `group_of`: by cell, the
    name of its group; then three in a row end the runs of their group only.
    """
    todo = _announce(plan, folder, out, hands)
    with Interruption().watch() as interruption:
        record = Record(plan.configs, folder, out, interruption, again, len(todo), group_of)

        def orders(slots: Sequence[Slot], hands: Hands) -> list[Order]:
            return [
                Order(
                    cell=slot.cell,
                    seed=slot.seed,
                    words=tuple(plan.grid.words(*slot)),
                    script=plan.grid.cells[slot.cell][1].script,
                    results="" if hands.scheduler else str(results.absolute()),
                    revision=revision,
                    at_once=hands.count,
                    ends_when=ends_when,
                )
                for slot in slots
            ]

        if together := _beside_others(plan, folder, todo, hands):
            record.take(_side_by_side(plan, orders(together, hands), record, hands, results))
            todo = [slot for slot in missing_runs(plan.grid, folder.path) if not record.is_given_up(slot)]
            if todo and not interruption:
                out.print(f"{plural(len(todo), 'run')} to make alone, because others would disturb or disturbed them")
        if todo and not interruption:
            record.take(_one_by_one(orders(todo, ALONE), record))
    return not missing_runs(plan.grid, folder.path)


def _one_by_one(orders: Sequence[Order], record: Record) -> Outcomes:
    with more_runs_follow():
        for done, order in enumerate(orders):
            if record.is_given_up(order):
                continue
            left = record.heading([each.slot for each in orders[done:]])
            heading = f"[{left}] {order.cell}, seed {order.seed}"
            progress = Progress(record.out, plain_interval_s=_PLAIN_INTERVAL_S, heading=heading)
            yield order, make(order, progress, lambda: bool(record.interruption))


def _side_by_side(plan: Plan, orders: Sequence[Order], record: Record, hands: Hands, results: Path) -> Outcomes:
    # Dask takes a second to import, which is only waited for where it is used.
    from harness.campaign.dask_cluster import cluster_at, local_cluster
    from harness.campaign.side_by_side import Workers
    from harness.campaign.workers_view import WorkersView

    left = {order.slot: None for order in orders}
    configs = plan.configs.values()
    wanted = equipment(sorted({choice for each in configs for choice in (each.server, each.resource_server)}))

    def limit_s(order: Order) -> float:
        config = plan.configs[order.cell]
        return _AT_LEAST_S + _HUNG_AFTER * (config.duration_ms + config.recovery_ms) / 1e3

    there = cluster_at(hands.scheduler) if hands.scheduler else local_cluster(min(hands.count, len(orders)))
    with WorkersView(record.out) as view, there as client:
        pace = FindingPace(hands.count) if hands.is_finding else Pace(hands.count)
        ready = Workers(client, wanted, view, pace, results=results if hands.scheduler else None)
        view.heading = f"[{record.heading(list(left), pace.count)}]"
        with closing(ready.play(orders, limit_s, lambda: bool(record.interruption), record.is_given_up)) as outcomes:
            for order, made in outcomes:
                del left[order.slot]
                yield order, made
                view.heading = f"[{record.heading(list(left), pace.count)}]"
                if not view.is_live:
                    how = made.line.outcome or made.line.verdict if made.line else "aborted"
                    record.out.print(f"{view.heading} {order.cell}, seed {order.seed}: {how}", soft_wrap=True)


def _announce(plan: Plan, folder: CampaignFolder, out: Console, hands: Hands) -> list[Slot]:
    """Say what will be done; the runs that are to be made."""
    lines = folder.lines()
    if foreign := {line.slot for line in lines} - set(in_order(folder.campaign.grid)):
        raise UsageError(
            f"{folder.path / 'runs.jsonl'} has a run whose cell is not in this grid: {sorted(foreign)[0].cell!r}"
        )
    asked = set(in_order(plan.grid))
    lines = [line for line in lines if line.slot in asked]
    todo = missing_runs(plan.grid, folder.path)
    seeds = sorted({part.seeds for part in plan.grid.parts})
    out.print(
        f"{plan.grid.title}: {plural(plan.grid.run_count, 'run')} "
        f"({plural(len(plan.grid.cells), 'cell')}, {' or '.join(plural(each, 'seed') for each in seeds)} each)",
    )
    if lines:
        again = sum(line.error is not None for line in lines)
        retried = f", {again} aborted ones will be made again" if again else ""
        finished = sum(line.is_final for line in lines)
        out.print(f"found {finished} of them finished in {folder.path}{retried}")
    if todo:
        estimate = Estimate(plan.configs)
        for line in lines:
            if line.error is None:
                estimate.learn(line.cell, line.took_s)
        together = len(_beside_others(plan, folder, todo, hands))
        alone = len(todo) - together
        ways = f", {hands.in_words}" + (f", {alone} of them alone" if alone else "") if together else ""
        seconds = estimate.seconds(todo) * (together / max(1, min(hands.count, together)) + alone) / len(todo)
        out.print(f"{plural(len(todo), 'run')} to make{ways}, about {in_words(seconds)}")
    return todo


def missing_runs(grid: Grid, place: Path) -> list[Slot]:
    """The runs of the grid that are still to be made, in order. `place`: where its record is kept, if it was begun."""
    finished = finished_runs(place)
    return [slot for slot in in_order(grid) if slot not in finished]


def _beside_others(plan: Plan, folder: CampaignFolder, todo: Sequence[Slot], hands: Hands) -> list[Slot]:
    """The runs that may be made at the same time: not runs that measure costs, nor runs that others beside
    them disturbed the last time."""
    if not hands.are_many:
        return []
    disturbed = {line.slot for line in folder.lines() if line.error is None and not line.is_final}
    costs = {cell.name for part in plan.grid.parts if part.kind == "cost" for cell in part.cells}
    return [slot for slot in todo if slot.cell not in costs and slot not in disturbed]
