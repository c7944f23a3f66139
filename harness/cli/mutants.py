"""`fencepost mutants`: run broken versions of the reference lock until each is caught."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from fencepost.options import Option
from harness.campaign.parallelism import OnScheduler, SideBySide
from harness.cli.command import Call, Command
from harness.config import RESULTS
from harness.options import Results


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    quick: Annotated[bool, Option("--quick", "only the standard faults")] = False
    only: Annotated[
        tuple[str, ...], Option("--only", "only this row of the table; may be given more than once", metavar="NAME")
    ] = ()
    faults: Annotated[
        tuple[str, ...],
        Option("--faults", "only this column of the table, like standard; may be given more than once", metavar="NAME"),
    ] = ()
    seeds: Annotated[
        int | None,
        Option(
            "--seeds",
            "runs of each mutant under the standard faults and the plain ones",
            shown_default="3; quick: 1",
            low=1,
        ),
    ] = None
    first_seed: Annotated[int, Option("--first-seed", "the seeds are N, N+1, …", low=0)] = 1
    workers: SideBySide = None
    scheduler: OnScheduler = None
    report: Annotated[
        Path | None, Option("--report", "folder of the table", metavar="DIR", shown_default="results/mutants/TIME")
    ] = None
    results: Results = RESULTS


def _mutants(call: Call) -> int:
    from cluster.backend_registry import everywhere
    from harness.mutants.session import mutants_study

    arguments: Arguments = call.arguments
    study = mutants_study(
        arguments.report,
        seeds=(1 if arguments.quick else 3) if arguments.seeds is None else arguments.seeds,
        first_seed=arguments.first_seed,
        cluster=call.replaced.get("cluster", everywhere().name),
        quick=arguments.quick,
        only=arguments.only,
        faults=arguments.faults,
    )
    return call.make(study)


COMMAND = Command(
    description="""
Run every mutant of the reference lock until the judge catches it, and the reference lock itself under the same loads
and faults. The table shows which faults expose which mutant, how soon, and what the verdict says.""",
    arguments=Arguments,
    do=_mutants,
    replaces="for all runs (on processes, unless --cluster says otherwise)",
    epilog="""examples:
  fencepost mutants --quick
  fencepost mutants --only "half is enough" --only "reference, busy"
  fencepost mutants --faults standard --faults plain
  fencepost mutants --faults standard --workers 2
  fencepost mutants --seeds 5 --report results/mutants/mine    (resumes after an interruption)

exit codes: 0 every mutant was caught and named within 60 s and no correct lock was blamed, 1 otherwise, 2 runs are
missing, 254 bad arguments, 255 the harness or its environment failed
""",
)
