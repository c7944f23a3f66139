"""`fencepost mutants`: its arguments."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.config import RunConfig


def add_mutants(
    commands: argparse._SubParsersAction[Any], parse: Callable[[Sequence[str]], RunConfig]
) -> argparse.ArgumentParser:
    """The parser of `fencepost mutants`, without the options that all commands share. `parse`: from arguments of
    `fencepost test` to a run."""
    mutants: argparse.ArgumentParser = commands.add_parser(
        "mutants",
        help="play locks with one line wrong until they are found",
        description="Play every mutant of the reference lock until the judge finds it, and the reference itself under "
        "the same loads and faults; a table of what finds which, how soon, and what the verdict says.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""examples:
  fencepost mutants --quick
  fencepost mutants --only "half is enough" --only "reference, busy"
  fencepost mutants --seeds 5 --report results/mutants/mine    (goes on where it was interrupted)

exit codes: 0 every mutant was found and named within 60 s and no correct lock was blamed, 1 not so, 2 runs are missing,
254 bad arguments, 255 the harness or its surroundings failed
""",
    )
    mutants.add_argument("--quick", action="store_true", help="only the faults that find a mutant surely")
    mutants.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="this row of the table and no other; more than once"
    )
    mutants.add_argument("--seeds", type=int, metavar="N", help="runs of each mutant under those faults (5; quick: 1)")
    mutants.add_argument("--first-seed", type=int, default=1, metavar="N", help="the seeds are N, N+1, … (1)")
    mutants.add_argument(
        "--cluster", choices=("auto", "process", "docker"), default="process", help="where servers run (process)"
    )
    mutants.add_argument("--report", type=Path, metavar="DIR", help="folder of the table (results/mutants/TIME)")
    mutants.set_defaults(do=partial(_mutants, parse))
    return mutants


def _mutants(parse: Callable[[Sequence[str]], RunConfig], arguments: argparse.Namespace, out: Console) -> int:
    from harness.mutants.session import prove

    return prove(
        parse,
        arguments.report,
        arguments.results,
        seeds=(1 if arguments.quick else 5) if arguments.seeds is None else arguments.seeds,
        first_seed=arguments.first_seed,
        cluster=arguments.cluster,
        quick=arguments.quick,
        only=arguments.only,
        command=shlex.join(["fencepost", *arguments.given]),
        out=out,
    )
