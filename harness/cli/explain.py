"""`fencepost explain`: how each violation of a recorded run happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from fencepost.errors import UsageError
from fencepost.options import Option
from harness.cli.command import ARecordedRun, Call, Command
from harness.config import RESULTS

if TYPE_CHECKING:
    from rich.console import Console


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    run: ARecordedRun = RESULTS / "latest"
    limit: Annotated[int, Option("--limit", "how many of each kind", low=1)] = 3


def _explain(call: Call, out: Console) -> int:
    from harness.checkers.judge import judge, recorded_verdict
    from harness.explain.explanation import explain
    from harness.report.explanations import render_explained
    from harness.store.run_folder import RunFolder
    from harness.store.tables import load_recorded

    arguments: Arguments = call.arguments
    folder = RunFolder.open(arguments.run)
    run = load_recorded(folder)
    verdict = judge(run)
    try:
        recorded_verdict(folder)
    except UsageError as unfit:
        out.print(f"{unfit}; what follows is from the record", soft_wrap=True)
    out.print(render_explained(run, verdict, explain(run, verdict, folder, arguments.limit)))
    return 0


COMMAND = Command(
    description="""
Say how each violation of a recorded run happened: the first few of each kind and the longest one, with the two
sections, what each client had been told, what each node answered and what happened to it in between, the faults in
force, and one sentence in plain words. Gives no verdict and writes nothing.""",
    arguments=Arguments,
    do=_explain,
    epilog="""What each node answered is known from locks that record it (`redlock`, the controls, yours:
docs/lock-protocol.md), otherwise from the witness. The sentence also says what is not known. See docs/explain.md.
exit codes: 0, whatever is explained; 254 bad arguments or a damaged folder
""",
)
