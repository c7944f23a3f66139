"""`fencepost survey`: which lock library keeps which promise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from fencepost.options import Option
from harness.campaign.parallelism import OnScheduler, SideBySide
from harness.cli.command import Call, Command
from harness.config import RESULTS
from harness.options import Results

if TYPE_CHECKING:
    from rich.console import Console

    from harness.survey.subjects import Subject


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    list: Annotated[bool, Option("--list", "list the libraries that are surveyed")] = False
    only: Annotated[
        tuple[str, ...], Option("--only", "only this library; may be given more than once", metavar="NAME")
    ] = ()
    quick: Annotated[bool, Option("--quick", "a few libraries, faults and uses, one seed")] = False
    seeds: Annotated[
        int | None, Option("--seeds", "runs of each configuration", shown_default="5; quick: 1", low=1)
    ] = None
    workers: SideBySide = None
    scheduler: OnScheduler = None
    report: Annotated[
        Path | None, Option("--report", "folder of the page", metavar="DIR", shown_default="results/survey")
    ] = None
    results: Results = RESULTS


def _survey(call: Call) -> int:
    from harness.cli import setup
    from harness.survey.session import survey_study
    from harness.survey.subjects import chosen

    arguments: Arguments = call.arguments
    subjects = chosen(arguments.only, quick=arguments.quick)
    if arguments.list:
        _show(subjects, call.out)
        return 0
    study = survey_study(
        arguments.report,
        subjects=subjects,
        seeds=(1 if arguments.quick else 5) if arguments.seeds is None else arguments.seeds,
        quick=arguments.quick,
        cluster=call.replaced.get("cluster"),
    )
    return call.make(study, setup.install_missing)


def _show(subjects: Sequence[Subject], out: Console) -> None:
    from harness.survey.subjects import library_of

    for subject in subjects:
        library = library_of(subject)
        servers = "1 server" if subject.nodes == 1 else f"{subject.nodes} servers"
        version = f" {library.version}" if library.version else ""
        out.print(
            f"{subject.name}: {library.name}{version}, {library.language}, {servers}; {subject.algorithm}",
            soft_wrap=True,
        )


COMMAND = Command(
    description="""
Play lock libraries under the same faults, and say which promises of a lock each of them keeps, with rates and a page.
Libraries that are missing are installed first. See docs/survey.md.""",
    arguments=Arguments,
    do=_survey,
    replaces="for all runs",
    epilog="""examples:
  fencepost survey --quick --workers 2
  fencepost survey --only redsync --only redlock --seeds 1 --report /tmp/redsync

The same command resumes after an interruption. A finished run is never made again, and a page grows when other
libraries are played into its folder.
exit codes: 0 all runs are there, 1 a correct lock was blamed or a broken one was not, 2 runs are missing, 254 bad
arguments, 255 the harness or its environment failed
""",
)
