"""`fencepost replay`: make a recorded run again."""

from __future__ import annotations

from typing import Annotated

import msgspec

from fencepost.options import Option
from harness.cli.command import ARecordedRun, Call, Command
from harness.config import RESULTS
from harness.options import Expected, Results


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    run: ARecordedRun
    times: Annotated[int, Option("--times", "how many times", low=1, high=1_000)] = 1
    expect: Expected = "valid"
    results: Results = RESULTS


def _replay(call: Call) -> int:
    from harness.replay.replay import SourceRun, replay

    arguments: Arguments = call.arguments
    source = SourceRun.open(arguments.run, arguments.results)
    changed = dict(call.replaced)
    if "lock" in changed:
        changed.setdefault("lock_command", None)
    if {"lock", "lock_command"} & changed.keys():
        changed.setdefault("name", None)
    expected = arguments.expect == "violation"
    return replay(source, arguments.times, changed, arguments.results, expect_violation=expected, out=call.out)


COMMAND = Command(
    description="""
Make a recorded run again: the same configuration, seed and schedule (where a hunt chose its own moments, the schedule
that it played), or the same scripted experiment. Clients are real processes and their timing is not repeatable, so a
violation may not happen again: at the end you see in how many replays the same kind did.""",
    arguments=Arguments,
    do=_replay,
    replaces="instead of what the run had",
    epilog="""examples:
  fencepost replay latest
  fencepost replay latest --times 5                  # how often does it happen?
  fencepost replay latest --persistence aof-always   # would that have helped?

exit codes: as `fencepost test`, for the most severe verdict
""",
)
