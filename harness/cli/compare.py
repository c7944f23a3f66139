"""`fencepost compare`: make many runs over a grid of configurations, and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from fencepost.errors import UsageError
from fencepost.options import Option
from harness.campaign.parallelism import AtOnce, OnScheduler
from harness.cli.command import Call, Command
from harness.config import RESULTS
from harness.options import Results


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    axis: Annotated[
        tuple[str, ...],
        Option(
            "--axis",
            "an option of `fencepost test` and its values, joined by commas (or by semicolons); every combination",
            metavar="NAME=VALUES",
        ),
    ] = ()
    grid: Annotated[
        str | None,
        Option("--grid", "a grid in JSON or Python, or the name of one that ships with fencepost", metavar="FILE"),
    ] = None
    quick: Annotated[bool, Option("--quick", "the small form of a grid that has one")] = False
    seeds: Annotated[
        int | None, Option("--seeds", "runs of each cell", shown_default="10, or what the grid says", low=1)
    ] = None
    first_seed: Annotated[int, Option("--first-seed", "the seeds are N, N+1, …", low=0)] = 1
    report: Annotated[
        Path | None, Option("--report", "folder of the report", metavar="DIR", shown_default="results/reports/NAME")
    ] = None
    workers: Annotated[
        AtOnce | None,
        Option(
            "--workers",
            "parallel runs, except for grids that measure costs; auto: as many as do not disturb each other",
            metavar="N|auto",
            shown_default="1, or all workers of --scheduler",
        ),
    ] = None
    scheduler: OnScheduler = None
    yes: Annotated[bool, Option("--yes", "allow more than 10,000 runs")] = False
    results: Results = RESULTS


def _compare(call: Call) -> int:
    from harness.campaign.grid import check, common_options, from_axes, load_grid, with_options
    from harness.campaign.page import comparison

    arguments: Arguments = call.arguments
    seeds, first_seed = arguments.seeds, arguments.first_seed
    common = common_options(call.behind_dashes)
    if bool(arguments.grid) == bool(arguments.axis):
        raise UsageError("give either --axis, once or more, or --grid; see `fencepost compare --help`")
    if arguments.grid:
        grid = with_options(load_grid(arguments.grid, quick=arguments.quick), seeds, first_seed, common)
    else:
        grid = check(from_axes(arguments.axis, 10 if seeds is None else seeds, first_seed, common))
    return call.make(comparison(grid, arguments.report, yes=arguments.yes))


COMMAND = Command(
    description="Run every configuration of a grid with the same seeds, and compare them.",
    arguments=Arguments,
    do=_compare,
    usage="fencepost compare (--axis NAME=VALUE,VALUE … | --grid FILE) [options] [-- options of fencepost test]",
    epilog="""examples:
  fencepost compare --axis lock=redlock,redlock-ng --axis nemesis=pause,crash --seeds 10 -- --duration 20s
  fencepost compare --axis "nemesis=crash:targets=majority,restart-delay=0;none" --axis clients=4,16
  fencepost compare --grid fsync --quick
  fencepost compare --grid libraries --workers auto
  fencepost compare --grid libraries --scheduler tcp://10.0.0.1:8786

The same command resumes after an interruption. A finished run is never made again.
exit codes: 0 all runs are finished, 2 some are not, 254 bad arguments, 255 the harness or its environment failed
""",
    with_dashes=True,
)
