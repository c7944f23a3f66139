"""`fencepost analyze`: judge a recorded run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from harness.cli.command import ARecordedRun, Call, Command
from harness.config import RESULTS
from harness.options import Expected

if TYPE_CHECKING:
    from rich.console import Console


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    run: ARecordedRun = RESULTS / "latest"
    expect: Expected = "valid"


def _analyze(call: Call, out: Console) -> int:
    from harness.session import report_run
    from harness.store.run_folder import RunFolder

    arguments: Arguments = call.arguments
    folder = RunFolder.open(arguments.run)
    return report_run(folder, expect_violation=arguments.expect == "violation", out=out)


COMMAND = Command(
    description="Judge a recorded run again, and write its verdict and its page.", arguments=Arguments, do=_analyze
)
