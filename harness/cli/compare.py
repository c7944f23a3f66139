"""`fencepost compare`: its arguments."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from fencepost.errors import UsageError
from harness.config import RunConfig


def add_compare(
    commands: argparse._SubParsersAction[Any], parse: Callable[[Sequence[str]], RunConfig]
) -> argparse.ArgumentParser:
    """The parser of `fencepost compare`, without the options that all commands share. `parse`: from arguments of
    `fencepost test` to a run."""
    compare: argparse.ArgumentParser = commands.add_parser(
        "compare",
        help="make many runs over a grid of configurations, and a report",
        description="Run every configuration of a grid with the same seeds, one run after the other, and compare them.",
        usage="fencepost compare (--axis NAME=VALUE,VALUE … | --grid FILE) [options] [-- options of fencepost test]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""examples:
  fencepost compare --axis lock=redlock,redlock-ng --axis nemesis=pause,crash --seeds 10 -- --duration 20s
  fencepost compare --axis "nemesis=crash:targets=majority,restart-delay=0;none" --axis clients=4,16
  fencepost compare --grid fsync --quick

The same command goes on where it was interrupted. A run that is finished is never made again.
exit codes: 0 all runs are finished, 2 some are not, 254 bad arguments, 255 the harness or its surroundings failed
""",
    )
    compare.add_argument(
        "--axis",
        action="append",
        metavar="NAME=VALUES",
        help="an option of `fencepost test` and its values, joined by commas (or by semicolons); every combination",
    )
    compare.add_argument("--grid", metavar="FILE", help="a grid in JSON or Python, or the name of one that comes along")
    compare.add_argument("--quick", action="store_true", help="the small form of a grid that has one")
    compare.add_argument("--seeds", type=int, metavar="N", help="runs of each cell (10, or what the grid says)")
    compare.add_argument("--first-seed", type=int, default=1, metavar="N", help="the seeds are N, N+1, … (1)")
    compare.add_argument("--report", type=Path, metavar="DIR", help="folder of the report (results/reports/NAME)")
    compare.add_argument("--yes", action="store_true", help="also if these are more than 10,000 runs")
    compare.set_defaults(do=partial(_compare, parse))
    return compare


def _compare(parse: Callable[[Sequence[str]], RunConfig], arguments: argparse.Namespace, out: Console) -> int:
    from harness.campaign.grid import check, common_options, from_axes, load_grid, with_options
    from harness.campaign.session import compare

    seeds, first_seed = arguments.seeds, arguments.first_seed
    common = common_options(arguments.common)
    if bool(arguments.grid) == bool(arguments.axis):
        raise UsageError("give either --axis, once or more, or --grid; see `fencepost compare --help`")
    if arguments.grid:
        grid = with_options(load_grid(arguments.grid, quick=arguments.quick), seeds, first_seed, common)
    else:
        grid = check(from_axes(arguments.axis, 10 if seeds is None else seeds, first_seed, common))
    return compare(
        grid,
        parse,
        arguments.report,
        arguments.results,
        yes=arguments.yes,
        command=shlex.join(["fencepost", *arguments.given]),
        out=out,
    )


def behind_dashes(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command's own arguments, and what stands behind `--` of `compare`: options for its runs."""
    words = list(argv)
    if words[:1] != ["compare"] or "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]
