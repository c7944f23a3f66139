"""`fencepost shrink`: find the fewest and shortest faults that still show a run's violation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from fencepost.errors import UsageError
from fencepost.options import Option
from harness.cli.command import ARecordedRun, Call, Command
from harness.config import RESULTS
from harness.options import Results


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    run: ARecordedRun
    repeats: Annotated[int, Option("--repeats", "most plays of a candidate", low=1, high=1_000)] = 3
    needed: Annotated[int, Option("--needed", "plays that must show it", metavar="K", low=1, high=1_000)] = 2
    limit_ms: Annotated[float, Option("--limit", "time for the whole search: 90s, 10m", unit="s")] = 600_000
    kind: Annotated[
        str | None,
        Option(
            "--kind", "shrink this violation instead of the most severe: overlap, lost-update:lock, …", metavar="KIND"
        ),
    ] = None
    output: Annotated[
        Path | None,
        Option("--output", "where the schedule is written", metavar="FILE", shown_default="RUN/shrunk.json"),
    ] = None
    results: Results = RESULTS


def _shrink(call: Call) -> int:
    from harness.replay.replay import SourceRun
    from harness.shrink.session import Wanted, shrink

    arguments: Arguments = call.arguments
    if arguments.needed > arguments.repeats:
        raise UsageError(
            f"--needed {arguments.needed} of --repeats {arguments.repeats} can never be seen; lower --needed"
        )
    wanted = Wanted(
        repeats=arguments.repeats,
        needed=arguments.needed,
        limit_s=arguments.limit_ms / 1e3,
        kind=arguments.kind,
        output=arguments.output,
        cluster=call.replaced.get("cluster"),
    )
    return shrink(SourceRun.open(arguments.run, arguments.results), wanted, arguments.results, call.out)


COMMAND = Command(
    description="""
Find the smallest schedule that still shows the violation of a recorded run: fewer faults, less time, fewer targets.
Each candidate is played on real servers until K of at most N plays have shown the same kind of violation (the same
finding, the same blame), or until that is out of reach. See docs/shrink.md.""",
    arguments=Arguments,
    do=_shrink,
    replaces="instead of what the run had",
    epilog="""examples:
  fencepost shrink latest
  fencepost shrink latest --limit 3m --output smallest.json
  fencepost shrink latest --kind lost-update:client   # this violation instead of the most severe
  fencepost shrink latest --repeats 6 --needed 1      # a violation that rarely happens

Ctrl-C ends the search and writes the best schedule found so far.
exit codes: 0 a schedule was written that showed the violation again afterwards, 2 it did not show it again or that was
not tried, 254 bad arguments, 255 the harness or its environment failed
""",
)
