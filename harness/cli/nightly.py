"""`fencepost nightly`: the standard faults on many locks, night after night."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec

from fencepost.options import Option
from harness.campaign.parallelism import OnScheduler, SideBySide
from harness.cli.command import Call, Command
from harness.config import RESULTS
from harness.options import Results

_WHOLE_MS: Final = 2 * 3_600_000.0
_QUICK_MS: Final = 240_000.0


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    quick: Annotated[bool, Option("--quick", "a few locks and two controls, 10 s each, on processes")] = False
    budget: Annotated[
        float | None,
        Option(
            "--budget",
            "about how long all runs may take",
            unit="s",
            low=60_000,
            high=24 * 3_600_000,
            shown_default="2h; quick: 4m",
        ),
    ] = None
    workers: SideBySide = None
    scheduler: OnScheduler = None
    report: Annotated[
        Path | None, Option("--report", "folder of the nights", metavar="DIR", shown_default="results/nightly")
    ] = None
    results: Results = RESULTS


def _nightly(call: Call) -> int:
    from datetime import UTC, datetime

    from cluster.backend_registry import backends, everywhere
    from harness.cli import setup
    from harness.nightly.session import nightly_study
    from harness.survey.subjects import chosen

    arguments: Arguments = call.arguments
    subjects = [subject for subject in chosen((), quick=arguments.quick) if subject.role != "broken"]
    budget_ms = arguments.budget or (_QUICK_MS if arguments.quick else _WHOLE_MS)
    cluster = call.replaced.get("cluster")
    clusters = [cluster] if cluster else [everywhere().name] if arguments.quick else list(backends())
    study = nightly_study(
        arguments.report,
        night=datetime.now(UTC).date(),
        subjects=subjects,
        clusters=clusters,
        budget_s=budget_ms / 1e3,
        quick=arguments.quick,
    )
    return call.make(study, setup.install_missing)


COMMAND = Command(
    description="""
Play the standard faults on many locks, other ones and other seeds each night, and write a page with the night's
verdicts, what changed since the night before, and the trend. See docs/nightly.md.""",
    arguments=Arguments,
    do=_nightly,
    replaces="for all runs (on processes and on Docker, unless --cluster says otherwise)",
    epilog="""examples:
  fencepost nightly --quick --workers 2
  fencepost nightly --budget 50m --cluster process

The same command resumes the night after an interruption. A finished run is never made again.
exit codes: 0 every control was caught and no correct lock blamed, 1 otherwise, 2 runs are missing, 254 bad arguments,
255 the harness or its environment failed
""",
)
