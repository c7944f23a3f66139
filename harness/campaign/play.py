"""Make the runs of a campaign, one after the other, through the same code as `fencepost test`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

from rich.console import Console

from fencepost.errors import FencepostError, UsageError
from fencepost.text import plural
from harness.campaign.example_timeline import moment_of
from harness.campaign.folder import CampaignFolder, RunLine
from harness.campaign.grid import Grid
from harness.campaign.measure import measure
from harness.campaign.order import Estimate, Slot, in_order
from harness.config import RunConfig
from harness.options import parse_run
from harness.report.progress import Progress
from harness.run.interruption import Interruption
from harness.run.outside import more_runs_follow
from harness.run.prepare import prepare
from harness.session import judge_and_draw, new_folder, record_run
from harness.store.run_folder import RunFolder
from harness.verdict import Verdict, breaking

MOST_RUNS: Final = 10_000
_PLAIN_INTERVAL_S: Final = math.inf
_BREAKS_IN_A_ROW: Final = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """A grid of which every cell was checked."""

    grid: Grid
    configs: Mapping[str, RunConfig]

    def config(self, slot: Slot) -> RunConfig:
        return parse_run(self.grid.words(*slot))


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
    enough: Callable[[Slot, RunFolder], bool] | None = None,
    again: str = "the same command",
) -> bool:
    """Make the runs that `folder` has not yet; whether all of them are there now. Ctrl-C ends it with what there is.
    `enough` is asked now and then whether the run under way has shown all that is wanted. `again`: what goes on then.

    A run that breaks off is recorded as such, and made again when the campaign is resumed; three in a row end it.
    Raises FencepostError then, and UsageError if the lines on record are not of this grid.
    """
    todo = _announce(plan, folder, out)
    estimate = Estimate(plan.configs)
    kept = set(folder.timelines())
    broke = 0
    with Interruption().watch() as interruption, more_runs_follow():
        for done, slot in enumerate(todo):
            left = _time(estimate.seconds(todo[done:]))
            heading = f"[{done + 1}/{len(todo)}, {left} left] {slot.cell}, seed {slot.seed}"
            began = monotonic()
            prepared = prepare(plan.config(slot))
            run = new_folder(prepared, results)
            failure: FencepostError | None = None
            try:
                with Progress(out, plain_interval_s=_PLAIN_INTERVAL_S, heading=heading) as progress:
                    record_run(prepared, run, progress, enough and partial(enough, slot, run))
            except FencepostError as error:
                failure = error
            if interruption or ((timeline := run.read_timeline()) is not None and timeline.interrupted):
                out.print(
                    f"interrupted; {plural(done, 'run')} of {len(todo)} made, the one under way does not count. "
                    f"{again[0].upper()}{again[1:]} goes on from here."
                )
                return False
            if failure is None:
                line = _judged(run, slot, folder, kept, revision, began)
                estimate.learn(slot.cell, line.took_s)
                broke = 0
            else:
                took_s = monotonic() - began
                line = RunLine(
                    cell=slot.cell, seed=slot.seed, folder=run.name, verdict="broke off", took_s=took_s,
                    revision=revision, error=str(failure),
                )  # fmt: skip
                out.print(f"{heading}: the run broke off ({failure}); see {run.path}")
                broke += 1
            folder.append(line)
            if failure is not None and broke == _BREAKS_IN_A_ROW:
                raise failure
            if interruption:
                out.print(f"interrupted after {plural(done + 1, 'run')} of {len(todo)}; {again} goes on")
                return _unfinished(plan, folder) == 0
    return _unfinished(plan, folder) == 0


def _announce(plan: Plan, folder: CampaignFolder, out: Console) -> list[Slot]:
    """Say what will be done; the runs that are to be made."""
    slots = in_order(plan.grid)
    lines = folder.lines()
    if foreign := {line.slot for line in lines} - set(slots):
        raise UsageError(f"{folder.path / 'runs.jsonl'} has a run of no cell of this grid: {sorted(foreign)[0].cell!r}")
    finished = {line.slot for line in lines if line.error is None}
    todo = [slot for slot in slots if slot not in finished]
    seeds = sorted({part.seeds for part in plan.grid.parts})
    out.print(
        f"{plan.grid.title}: {plural(plan.grid.run_count, 'run')} "
        f"({plural(len(plan.grid.cells), 'cell')}, {' or '.join(map(str, seeds))} seeds each)",
    )
    if lines:
        again = sum(line.error is not None for line in lines)
        retried = f", {again} that broke off will be made again" if again else ""
        out.print(f"found {len(finished)} of them finished in {folder.path}{retried}")
    if todo:
        estimate = Estimate(plan.configs)
        for line in lines:
            if line.error is None:
                estimate.learn(line.cell, line.took_s)
        out.print(f"{plural(len(todo), 'run')} to make, about {_time(estimate.seconds(todo))}")
    return todo


def _unfinished(plan: Plan, folder: CampaignFolder) -> int:
    return plan.grid.run_count - sum(line.error is None for line in folder.lines())


def _judged(run: RunFolder, slot: Slot, folder: CampaignFolder, kept: set[str], revision: str, began: float) -> RunLine:
    judged = judge_and_draw(run)
    recorded, verdict = judged.recorded, judged.verdict
    if slot.cell not in kept and (moment := moment_of(recorded)):
        folder.keep_timeline(slot.cell, {"folder": run.name, "seed": slot.seed, **moment})
        kept.add(slot.cell)
    return RunLine(
        cell=slot.cell,
        seed=slot.seed,
        folder=run.name,
        verdict=verdict.verdict,
        took_s=monotonic() - began,
        revision=revision,
        violation=_violation(verdict),
        figures=measure(recorded, verdict, judged.environment, judged.explained),
    )


def _violation(verdict: Verdict) -> str | None:
    found = breaking(verdict) if verdict.verdict == "violation" else ()
    return found[0].text if found else None


def _time(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`: what a person plans with."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
