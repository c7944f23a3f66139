"""`fencepost analyze`: judge a recorded run again."""

from __future__ import annotations

import sys

import msgspec

from harness.cli.command import ARecordedRun, Call, Command
from harness.config import RESULTS
from harness.options import Expected, JsonFile, Quiet, Verbose


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    run: ARecordedRun = RESULTS / "latest"
    expect: Expected = "valid"
    json: JsonFile = None
    quiet: Quiet = False
    verbose: Verbose = False


def _analyze(call: Call) -> int:
    from harness.report.result_file import STANDARD_OUTPUT, errors_written
    from harness.report.terminal import Terminal
    from harness.session import ResultOptions, report_run
    from harness.store.run_folder import RunFolder

    arguments: Arguments = call.arguments
    with errors_written(arguments.json):
        folder = RunFolder.open(arguments.run)
        expects = arguments.expect == "violation"
        wanted = ResultOptions(expects, arguments.json, arguments.verbose, arguments.quiet)
        return report_run(folder, Terminal(sys.stderr) if arguments.json == STANDARD_OUTPUT else call.out, wanted)


COMMAND = Command(
    description="Judge a recorded run again, and write its verdict and its page.",
    arguments=Arguments,
    do=_analyze,
)
