"""`fencepost study`: a study from a Python file, or one that comes with fencepost."""

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
    file: Annotated[Path, Option("FILE", "a Python file that defines STUDY, or systems or findings")]
    quick: Annotated[bool, Option("--quick", "its quick form")] = False
    seeds: Annotated[int | None, Option("--seeds", "runs of each cell", shown_default="what the study says", low=1)] = (
        None
    )
    workers: SideBySide = None
    scheduler: OnScheduler = None
    report: Annotated[
        Path | None, Option("--report", "folder of the study", metavar="DIR", shown_default="results/studies/NAME")
    ] = None
    results: Results = RESULTS


def _study(call: Call) -> int:
    from harness.campaign.grid import common_options
    from harness.campaign.own_study import read_study
    from harness.cli import setup

    arguments: Arguments = call.arguments
    common = common_options(call.behind_dashes)
    study = read_study(arguments.file, arguments.report, arguments.seeds, common, quick=arguments.quick)
    return call.make(study, setup.install_missing)


COMMAND = Command(
    description="""
Make the runs of a study, and write what it says of them: of one that comes with fencepost (systems, findings), or of
your own. Locks that are missing are installed first. See docs/reports.md, docs/systems.md and docs/survey.md.""",
    arguments=Arguments,
    do=_study,
    usage="fencepost study FILE|NAME [options] [-- options of fencepost test]",
    epilog="""examples:
  fencepost study systems --quick
  fencepost study my_study.py
  fencepost study my_study.py --seeds 1 -- --duration 2s

The same command resumes after an interruption. A finished run is never made again.
exit codes: what the study says; by default 0 all runs are finished, 2 some are not; 254 bad arguments or an error of
the study, 255 the harness or its environment failed
""",
    with_dashes=True,
)
