"""`fencepost list`: the recorded runs, a line each."""

from __future__ import annotations

from typing import Annotated

import msgspec

from fencepost.files import check_folder
from fencepost.options import Option
from harness.cli.command import Call, Command
from harness.config import RESULTS
from harness.options import Results


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    last: Annotated[int | None, Option("--last", "only the newest N", low=1)] = None
    since: Annotated[
        str,
        Option(
            "--since",
            "only runs begun at this time or later, in UTC",
            metavar="TIME",
            pattern=(r"|\d{8}T\d{6}Z", "a time in UTC like 20261231T235959Z"),
        ),
    ] = ""
    findings: Annotated[bool, Option("--findings", "what they found: in how many runs, how often, how soon")] = False
    results: Results = RESULTS


def _list(call: Call) -> int:
    from harness.report.listing import list_runs, render_listing

    arguments: Arguments = call.arguments
    if "results" in call.given:
        check_folder(arguments.results, "--results")
    runs = [run for run in list_runs(arguments.results) if f"{run.when:%Y%m%dT%H%M%SZ}" >= arguments.since]
    runs = runs[-arguments.last if arguments.last else 0 :]
    nothing = f"no runs in {arguments.results} yet; `fencepost test` makes one"
    if arguments.since:
        nothing = f"no runs in {arguments.results} since {arguments.since}"
    if not runs:
        call.out.print(nothing)
    elif arguments.findings:
        from harness.report.findings_listed import render_findings

        call.out.print(render_findings(runs))
    else:
        call.out.print(render_listing(runs))
    return 0


COMMAND = Command(description="List recorded runs, oldest first.", arguments=Arguments, do=_list)
