"""`fencepost claims`: settle the claims of the debate about locks on Redis by experiment."""

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
    list: Annotated[bool, Option("--list", "list the claims and the experiments that settle them")] = False
    only: Annotated[
        tuple[str, ...], Option("--only", "only this claim; may be given more than once", metavar="NAME")
    ] = ()
    quick: Annotated[
        bool, Option("--quick", "one run of each script, three of a load, five where a sign test decides")
    ] = False
    repeats: Annotated[
        int | None,
        Option(
            "--repeats",
            "runs of each experiment; three at least of a load, and five where a sign test decides",
            shown_default="20; quick: 1",
            low=1,
        ),
    ] = None
    workers: SideBySide = None
    scheduler: OnScheduler = None
    report: Annotated[
        Path | None, Option("--report", "folder of the page", metavar="DIR", shown_default="results/claims/NAME")
    ] = None
    results: Results = RESULTS


def _claims(call: Call) -> int:
    from harness.claims.grid import chosen
    from harness.claims.session import claims_study

    arguments: Arguments = call.arguments
    if arguments.list:
        for claim in chosen(arguments.only):
            call.out.print(f"{claim.name}: {claim.gist}")
            for trial in claim.trials:
                call.out.print(f"    {trial.role:<11} {trial.script}")
            if claim.edge:
                call.out.print(f"    edge        {claim.edge}")
            call.out.print(f"    predicted   {claim.prediction or 'nothing'}")
        return 0
    study = claims_study(
        arguments.report,
        only=arguments.only,
        repeats=(1 if arguments.quick else 20) if arguments.repeats is None else arguments.repeats,
        cluster=call.replaced.get("cluster"),
    )
    return call.make(study)


COMMAND = Command(
    description="""
Settle what is said about locks on Redis: play the scripts and loads of each claim several times, and say which claims
are confirmed, refuted or undecided, with the evidence. See docs/experiments.md.""",
    arguments=Arguments,
    do=_claims,
    replaces="for all runs",
    epilog="""examples:
  fencepost claims --quick --workers 2
  fencepost claims --only clock-step --only fencing --report /tmp/two-claims

The same command resumes after an interruption. A finished run is never made again.
exit codes: 0 every claim is decided, 1 one is undecided although all runs are there, 2 runs are missing, 254 bad
arguments, 255 the harness or its environment failed
""",
)
