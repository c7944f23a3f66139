"""The command line: `fencepost test | compare | analyze | list | doctor | clean`.

Exit codes: 0 valid, 1 violation, 2 unknown, 254 bad arguments or configuration, 255 the harness or its surroundings
failed. With `--expect violation` 0 means that it was found.
"""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from fencepost.errors import FencepostError, UsageError
from fencepost.units import parse_duration_ms
from harness.config import RunConfig
from harness.store import RESULTS
from workloads.hold import Hold


class _Parser(argparse.ArgumentParser):
    """argparse, with our exit code and one line instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


def run(argv: Sequence[str]) -> int:
    """Parse, do, and return the exit code. Every expected error is one line on stderr. KeyboardInterrupt passes through
    while nothing runs; a run handles Ctrl-C by itself."""
    out = Console(highlight=False)
    try:
        own, common = _behind_dashes(argv)
        arguments = _parser().parse_args(own)
        arguments.given, arguments.common = argv, common
        code: int = arguments.do(arguments, out)
    except FencepostError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"fencepost: {error}", markup=False)
        return error.exit_code
    except BrokenPipeError:
        return 255
    return code


def _behind_dashes(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command's own arguments, and what stands behind `--` (options for the runs of a comparison)."""
    words = list(argv)
    if "--" not in words or words[:1] != ["compare"]:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _test(arguments: argparse.Namespace, out: Console) -> int:
    from harness.prepare import prepare, remove_leftovers
    from harness.session import make_run

    config = config_from(arguments)
    prepared = prepare(config)
    remove_leftovers(out)
    return make_run(prepared, arguments.results, expect_violation=arguments.expect == "violation", out=out)


def _compare(arguments: argparse.Namespace, out: Console) -> int:
    import shlex

    from harness.campaign.grid import check, common_options, from_axes, load_grid, with_options
    from harness.campaign.session import compare

    seeds = None if arguments.seeds is None else _whole("--seeds", arguments.seeds)
    first_seed = _whole("--first-seed", arguments.first_seed)
    common = common_options(arguments.common)
    if bool(arguments.grid) == bool(arguments.axis):
        raise UsageError("give either --axis, once or more, or --grid; see `fencepost compare --help`")
    if arguments.grid:
        grid = with_options(load_grid(arguments.grid, quick=arguments.quick), seeds, first_seed, common)
    else:
        grid = check(from_axes(arguments.axis, 10 if seeds is None else seeds, first_seed, common))
    return compare(
        grid,
        parse_run,
        arguments.report,
        arguments.results,
        yes=arguments.yes,
        command=shlex.join(["fencepost", *arguments.given]),
        out=out,
    )


def parse_run(words: Sequence[str]) -> RunConfig:
    """The run that these arguments of `fencepost test` ask for. Raises UsageError."""
    return config_from(_parser().parse_args(["test", *words]))


def _analyze(arguments: argparse.Namespace, out: Console) -> int:
    from harness.session import report_run
    from harness.store import RunFolder

    return report_run(RunFolder.open(arguments.run), expect_violation=arguments.expect == "violation", out=out)


def _list(arguments: argparse.Namespace, out: Console) -> int:
    from rich import box
    from rich.table import Table

    from harness.store import list_runs

    table = Table("run", "verdict", box=box.SIMPLE)
    for entry in list_runs(arguments.results):
        table.add_row(entry.name, entry.verdict)
    out.print(table if table.row_count else f"no runs under {arguments.results} yet; `make test-partition` makes one")
    return 0


def _doctor(_arguments: argparse.Namespace, out: Console) -> int:
    from harness.doctor import examine, exit_code, render

    checks = examine()
    out.print(render(checks))
    return exit_code(checks)


def _clean(_arguments: argparse.Namespace, out: Console) -> int:
    from harness.prepare import remove_leftovers

    if not remove_leftovers(out):
        out.print("nothing was left behind by dead runs")
    return 0


def config_from(arguments: argparse.Namespace) -> RunConfig:
    """The run that the arguments ask for. Raises UsageError."""
    config = RunConfig(
        seed=secrets.randbelow(10**6) if arguments.seed is None else _whole("--seed", arguments.seed),
        lock=arguments.lock,
        lock_command=arguments.lock_command,
        nemesis=arguments.nemesis,
        schedule=arguments.schedule,
        duration_ms=_duration_ms("--duration", arguments.duration, "s"),
        recovery_ms=_duration_ms("--recovery", arguments.recovery, "s"),
        clients=_whole("--clients", arguments.clients),
        nodes=_whole("--nodes", arguments.nodes),
        keys=_whole("--keys", arguments.keys),
        ttl_ms=round(_duration_ms("--ttl", arguments.ttl)),
        hold=_hold(arguments.hold),
        fencing=arguments.fencing,
        acquire_mode=arguments.acquire,
        node_timeout_ms=_duration_ms("--node-timeout", arguments.node_timeout),
        retry_delay_ms=_duration_ms("--retry-delay", arguments.retry_delay),
        require=arguments.require,
        cluster=arguments.cluster,
        server=arguments.server,
    )
    config.check()
    return config


def _whole(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{option} is {text!r}; it must be a whole number") from None


def _duration_ms(option: str, text: str, default_unit: str = "ms") -> float:
    try:
        return parse_duration_ms(text, default_unit)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


def _hold(text: str) -> Hold:
    try:
        return Hold.parse(text)
    except UsageError as error:
        raise UsageError(f"--hold: {error}; write 20ms, uniform:2ms-20ms or exponential:20ms") from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fencepost",
        description="Finds out, by experiment on real Redis servers, whether a distributed lock keeps its promise.",
        epilog=(
            "exit codes: 0 valid, 1 violation, 2 unknown, 254 bad arguments, 255 the harness or its surroundings failed"
        ),
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_test(commands)
    _add_compare(commands)

    analyze = commands.add_parser(
        "analyze", help="judge a recorded run again", description="Judge a recorded run again."
    )
    analyze.add_argument("run", type=Path, nargs="?", default=RESULTS / "latest", help="run folder (latest)")
    _add_expect(analyze)
    analyze.set_defaults(do=_analyze)

    listing = commands.add_parser("list", help="list recorded runs", description="List recorded runs, newest first.")
    _add_results(listing)
    listing.set_defaults(do=_list)

    doctor = commands.add_parser(
        "doctor",
        help="say what this machine can do",
        description="Say what this machine can do, and which command would mend what it cannot.",
    )
    doctor.set_defaults(do=_doctor)

    clean = commands.add_parser(
        "clean",
        help="remove what dead runs left behind",
        description="Remove processes, containers, networks and temporary folders of runs whose harness is dead.",
    )
    clean.set_defaults(do=_clean)
    return parser


def _add_test(commands: argparse._SubParsersAction[_Parser]) -> None:
    from nemesis.registry import nemeses
    from workloads.registry import lock_names

    kinds = "\n".join(f"  {nemesis.name:<10} {nemesis.help}" for nemesis in nemeses().values())
    locks = "\n".join(f"  {info.name:<32} {info.summary}" for info in lock_names())
    test = commands.add_parser(
        "test",
        help="make a run and judge it",
        description="Bring up a cluster, let clients use a lock, inject faults, heal, judge.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"""nemeses (join with +, options after a colon: partition:interval=4s,duration=2s+latency):
  none       no faults
{kinds}

locks:
{locks}

examples:
  fencepost test --nemesis partition --duration 30s
  fencepost test --lock redlock --nemesis pause:targets=inside --fencing all --require data
  fencepost test --lock mypackage.locks:MyLock --nemesis partition+crash --cluster docker
  fencepost test --lock control-quorum-of-two --expect violation
""",
    )
    what = test.add_argument_group("what is tested")
    what.add_argument(
        "--lock", default="redlock-ng", metavar="NAME", help="a lock below, or package.module:Class (redlock-ng)"
    )
    what.add_argument(
        "--lock-command", metavar="CMD", help="a program that speaks the lock protocol (docs/lock-protocol.md)"
    )
    what.add_argument(
        "--acquire", choices=("parallel", "sequential"), default="parallel", help="how `redlock` asks the nodes"
    )
    what.add_argument("--fencing", choices=("none", "writes", "all"), default="none", help="who shows a token (none)")
    what.add_argument(
        "--require", choices=("lease", "exclusion", "data"), default="lease", help="what makes a violation (lease)"
    )
    _add_expect(test)

    load = test.add_argument_group("load")
    load.add_argument("--clients", default="10", metavar="N", help="client processes (10)")
    load.add_argument("--keys", default="1", metavar="N", help="locks they compete for (1)")
    load.add_argument("--ttl", default="1s", metavar="TIME", help="lease time asked for (1s)")
    load.add_argument(
        "--hold",
        default="uniform:2ms-20ms",
        metavar="DIST",
        help="20ms, uniform:2ms-20ms or exponential:20ms (uniform:2ms-20ms)",
    )
    load.add_argument(
        "--node-timeout", default="50ms", metavar="TIME", help="longest wait for one node, own locks (50ms)"
    )
    load.add_argument(
        "--retry-delay", default="50ms", metavar="TIME", help="longest random retry delay, own locks (50ms)"
    )
    load.add_argument("--duration", default="30s", metavar="TIME", help="load under faults (30s)")
    load.add_argument("--recovery", default="3s", metavar="TIME", help="load after everything is healed (3s)")

    faults = test.add_argument_group("faults")
    faults.add_argument("--nemesis", default="partition", metavar="SPEC", help="which faults, see below (partition)")
    faults.add_argument("--seed", metavar="N", help="same seed, same schedule (random, printed)")
    faults.add_argument("--schedule", metavar="FILE", help="play a saved schedule.json instead of drawing one")

    cluster = test.add_argument_group("cluster")
    cluster.add_argument(
        "--cluster", choices=("auto", "process", "docker"), default="auto", help="where servers run (auto)"
    )
    cluster.add_argument("--nodes", default="5", metavar="N", help="lock servers, 1 to 9 (5)")
    cluster.add_argument(
        "--server", default="redis", metavar="NAME", help="redis, valkey, or a path to a server (redis)"
    )
    _add_results(cluster)
    test.set_defaults(do=_test)


def _add_compare(commands: argparse._SubParsersAction[_Parser]) -> None:
    compare = commands.add_parser(
        "compare",
        help="make many runs over a grid of configurations, and a report",
        description="Run every configuration of a grid with the same seeds, one run after the other, and compare them.",
        usage="fencepost compare (--axis NAME=VALUE,VALUE … | --grid FILE) [options] [-- options of fencepost test]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""examples:
  fencepost compare --axis lock=redlock,redlock-ng --axis nemesis=pause,crash --seeds 10 -- --duration 20s
  fencepost compare --axis "nemesis=crash:targets=majority,restart-delay=0;none" --axis clients=4,16
  fencepost compare --grid fsync --quick

The same command goes on where it was interrupted. A run that is finished is never made again.
exit codes: 0 all runs are finished, 2 some are not, 254 bad arguments, 255 the harness or its surroundings failed
""",
    )
    compare.add_argument(
        "--axis",
        action="append",
        metavar="NAME=VALUES",
        help="an option of `fencepost test` and its values, joined by commas (or by semicolons); every combination",
    )
    compare.add_argument("--grid", metavar="FILE", help="a grid in JSON or Python, or the name of one that comes along")
    compare.add_argument("--quick", action="store_true", help="the small form of a grid that has one")
    compare.add_argument("--seeds", metavar="N", help="runs of each configuration (10, or what the grid says)")
    compare.add_argument("--first-seed", default="1", metavar="N", help="the seeds are N, N+1, … (1)")
    compare.add_argument("--report", type=Path, metavar="DIR", help="folder of the report (results/reports/NAME)")
    compare.add_argument("--yes", action="store_true", help="also if these are more than 10,000 runs")
    _add_results(compare)
    compare.set_defaults(do=_compare)


def _add_expect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expect", choices=("valid", "violation"), default="valid", help="with `violation`, finding one is exit code 0"
    )


def _add_results(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="DIR", help="folder of run folders (results/runs)"
    )
