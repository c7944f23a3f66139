"""The command line of making a run again: `fencepost replay` and `fencepost shrink`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from fencepost.errors import UsageError
from fencepost.units import parse_duration_ms

_CHANGED = ("cluster", "lock", "lock_command", "persistence", "fencing", "server", "require")
_MOST = 1_000


def add_replay(commands: argparse._SubParsersAction[Any]) -> argparse.ArgumentParser:
    """The command `replay`, without the options that it shares; the parser, to add those to."""
    from cluster.persistence import POLICIES

    replay: argparse.ArgumentParser = commands.add_parser(
        "replay",
        help="make a recorded run again",
        description="""
Make a recorded run again: the same configuration, seed and schedule (what was really played, where a hunt found its
own moments), or the same scripted experiment. Clients are real processes and their timing is not repeatable, so a
violation may come again or not: in the end it says how often the same kind did.""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""examples:
  fencepost replay latest
  fencepost replay latest --times 5                  # how often does it come?
  fencepost replay latest --persistence aof-always   # would that have helped?

exit codes: as `fencepost test`, of the gravest verdict
""",
    )
    replay.add_argument("run", type=Path, metavar="RUN", help="run folder, or its name in the folder of runs (latest)")
    replay.add_argument("--times", default="1", metavar="N", help="so many times (1)")
    changed = replay.add_argument_group("instead of what the run had")
    changed.add_argument("--lock", metavar="NAME", help="another lock")
    changed.add_argument("--lock-command", metavar="CMD", help="a program that speaks the lock protocol")
    changed.add_argument("--persistence", choices=POLICIES, help="another policy")
    changed.add_argument("--fencing", choices=("none", "writes", "all"), help="who shows a token")
    changed.add_argument("--require", choices=("lease", "exclusion", "data"), help="what makes a violation")
    changed.add_argument("--cluster", choices=("auto", "process", "docker"), help="where servers run")
    changed.add_argument("--server", metavar="NAME", help="redis, valkey, or a path to a server")
    replay.set_defaults(do=_replay)
    return replay


def add_shrink(commands: argparse._SubParsersAction[Any]) -> argparse.ArgumentParser:
    """The command `shrink`, without the options that it shares; the parser, to add those to."""
    shrink: argparse.ArgumentParser = commands.add_parser(
        "shrink",
        help="find the fewest and shortest faults that still show a run's violation",
        description="""
Find the smallest schedule that still shows the violation of a recorded run: fewer faults, less time, fewer targets.
Each candidate is played on real servers until K of at most N plays have shown the same kind of violation (the same
finding, the same blame), or that is out of reach. See docs/shrink.md.""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""examples:
  fencepost shrink latest
  fencepost shrink latest --limit 3m --output smallest.json
  fencepost shrink latest --kind lost-update:client   # not the gravest violation, but this one
  fencepost shrink latest --repeats 6 --needed 1      # one that comes rarely

Ctrl-C ends the search and writes the best found so far.
exit codes: 0 a schedule was written that showed it again afterwards, 2 it did not come again or that was not tried any
more, 254 bad arguments, 255 the harness or its surroundings failed
""",
    )
    shrink.add_argument("run", type=Path, metavar="RUN", help="run folder, or its name in the folder of runs (latest)")
    shrink.add_argument("--repeats", default="3", metavar="N", help="plays of a candidate at most (3)")
    shrink.add_argument("--needed", default="2", metavar="K", help="plays that must show it (2)")
    shrink.add_argument("--limit", default="10m", metavar="TIME", help="time for everything: 90s, 10m (10m)")
    shrink.add_argument(
        "--kind", metavar="KIND", help="another violation than the gravest: overlap, lost-update:lock, …"
    )
    shrink.add_argument("--output", type=Path, metavar="FILE", help="where the schedule goes (RUN/shrunk.json)")
    shrink.add_argument(
        "--cluster", choices=("auto", "process", "docker"), help="where servers run (as the run had it)"
    )
    shrink.set_defaults(do=_shrink)
    return shrink


def _replay(arguments: argparse.Namespace, out: Console) -> int:
    from harness.replay.replay import SourceRun, replay

    times = _whole("--times", arguments.times)
    source = SourceRun.open(arguments.run, arguments.results)
    changed = {name: value for name in _CHANGED if (value := getattr(arguments, name)) is not None}
    if "lock" in changed:
        changed.setdefault("lock_command", None)
    expected = arguments.expect == "violation"
    return replay(source, times, changed, arguments.results, expect_violation=expected, out=out)


def _shrink(arguments: argparse.Namespace, out: Console) -> int:
    from harness.replay.replay import SourceRun
    from harness.shrink.session import Wanted, shrink

    try:
        limit_s = parse_duration_ms(arguments.limit, "s") / 1e3
    except UsageError as error:
        raise UsageError(f"--limit: {error}") from None
    wanted = Wanted(
        repeats=_whole("--repeats", arguments.repeats),
        needed=_whole("--needed", arguments.needed),
        limit_s=limit_s,
        kind=arguments.kind,
        output=arguments.output,
        cluster=arguments.cluster,
    )
    if wanted.needed > wanted.repeats:
        raise UsageError(f"--needed {wanted.needed} of --repeats {wanted.repeats} can never be seen; lower --needed")
    return shrink(SourceRun.open(arguments.run, arguments.results), wanted, arguments.results, out)


def _whole(option: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= _MOST:
        raise UsageError(f"{option} is {text!r}; it must be a whole number from 1 to {_MOST}")
    return int(text)
