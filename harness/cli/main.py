"""The command line: `fencepost COMMAND`; `fencepost --help` lists the commands.

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

from cluster.disk import FILE_SYSTEMS
from cluster.persistence import POLICIES
from fencepost.errors import FencepostError, UsageError
from fencepost.units import Duration, parse_duration_ms
from harness.cli.compare import add_compare, behind_dashes
from harness.cli.explain import add_explain
from harness.cli.mutants import add_mutants
from harness.cli.replay import add_replay, add_shrink
from harness.cli.script import add_script
from harness.config import RunConfig
from harness.store.run_folder import RESULTS
from workloads.hold import Hold


class _Parser(argparse.ArgumentParser):
    """argparse, with our exit code and one line instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


def run(argv: Sequence[str]) -> int:
    """Parse, do, and return the exit code. Every expected error is one line on stderr. KeyboardInterrupt passes through
    while nothing runs; a run handles Ctrl-C by itself."""
    out = Console(highlight=False, emoji=False)  # what stands between two colons is a name, and no picture
    try:
        own, common = behind_dashes(argv)
        arguments = _parser().parse_args(own)
        arguments.given, arguments.common = argv, common
        code: int = arguments.do(arguments, out)
    except FencepostError as error:
        Console(stderr=True, highlight=False, emoji=False, soft_wrap=True).print(f"fencepost: {error}", markup=False)
        return error.exit_code
    except BrokenPipeError:
        return 255
    return code


def _test(arguments: argparse.Namespace, out: Console) -> int:
    from harness.run.prepare import prepare, remove_leftovers
    from harness.session import make_run

    config = config_from(arguments)
    prepared = prepare(config)
    remove_leftovers(out)
    return make_run(prepared, arguments.results, expect_violation=arguments.expect == "violation", out=out)


def parse_run(words: Sequence[str]) -> RunConfig:
    """The run that these arguments of `fencepost test` ask for. Raises UsageError."""
    return config_from(_parser().parse_args(["test", *words]))


def _analyze(arguments: argparse.Namespace, out: Console) -> int:
    from harness.session import report_run
    from harness.store.run_folder import RunFolder

    return report_run(RunFolder.open(arguments.run), expect_violation=arguments.expect == "violation", out=out)


def _list(arguments: argparse.Namespace, out: Console) -> int:
    from harness.report.listing import list_runs, render_listing

    last = None if arguments.last is None else _whole("--last", arguments.last)
    if last is not None and last < 1:
        raise UsageError(f"--last is {last}; it must be at least 1")
    runs = list_runs(arguments.results)[-last if last else 0 :]
    out.print(
        render_listing(runs) if runs else f"no runs under {arguments.results} yet; `make test-partition` makes one"
    )
    return 0


def _doctor(_arguments: argparse.Namespace, out: Console) -> int:
    from harness.cli.doctor import examine, exit_code, render

    checks = examine()
    out.print(render(checks))
    return exit_code(checks)


def _clean(_arguments: argparse.Namespace, out: Console) -> int:
    from harness.run.prepare import remove_leftovers

    if not remove_leftovers(out):
        out.print("nothing was left behind by dead runs")
    return 0


def config_from(arguments: argparse.Namespace) -> RunConfig:
    """The run that the arguments ask for. Raises UsageError."""
    config = RunConfig(
        seed=secrets.randbelow(10**6) if arguments.seed is None else _whole("--seed", arguments.seed),
        lock=arguments.lock,
        lock_command=arguments.lock_command,
        nemesis=_nemesis(arguments),
        schedule=arguments.schedule,
        duration_ms=_duration_ms("--duration", arguments.duration, "s"),
        recovery_ms=_duration_ms("--recovery", arguments.recovery, "s"),
        clients=_whole("--clients", arguments.clients),
        nodes=_whole("--nodes", arguments.nodes),
        keys=_whole("--keys", arguments.keys),
        ttl_ms=round(_duration_ms("--ttl", arguments.ttl)),
        hold=_hold(arguments.hold),
        extensions=_whole("--extend", arguments.extend),
        fencing=arguments.fencing,
        acquire_mode=arguments.acquire,
        node_timeout_ms=_duration_ms("--node-timeout", arguments.node_timeout),
        retry_delay_ms=_duration_ms("--retry-delay", arguments.retry_delay),
        require=arguments.require,
        cluster=arguments.cluster,
        server=arguments.server,
        persistence=arguments.persistence,
        disks=arguments.disks,
        disk_fs=arguments.disk_fs,
        witness=arguments.witness,
    )
    config.check()
    return config


def _nemesis(arguments: argparse.Namespace) -> str:
    """The spec of the nemeses, with `--restart-delay` written into it."""
    from nemesis.spec import with_option

    spec: str = arguments.nemesis
    if arguments.restart_delay is None:
        return spec
    if arguments.schedule is not None:
        raise UsageError("--restart-delay cannot change a saved schedule; edit its duration_ms, or draw a new one")
    try:
        Duration.parse(arguments.restart_delay)
    except UsageError as error:
        raise UsageError(f"--restart-delay: {error}") from None
    return with_option(spec, "restart-delay", arguments.restart_delay.strip())


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
    _add_results(add_compare(commands, parse_run))
    _add_results(add_mutants(commands, parse_run))
    _add_results(add_script(commands))
    replay = add_replay(commands)
    _add_expect(replay)
    _add_results(replay)
    _add_results(add_shrink(commands))

    analyze = commands.add_parser(
        "analyze", help="judge a recorded run again", description="Judge a recorded run again."
    )
    analyze.add_argument("run", type=Path, nargs="?", default=RESULTS / "latest", help="run folder (latest)")
    _add_expect(analyze)
    analyze.set_defaults(do=_analyze)

    add_explain(commands)

    listing = commands.add_parser("list", help="list recorded runs", description="List recorded runs, oldest first.")
    listing.add_argument("--last", metavar="N", help="only the newest N")
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
        description="Remove processes, containers, networks, disks and folders of runs whose harness is dead.",
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
        "--extend",
        default="0",
        metavar="N",
        help="prolong the lease up to N times while holding, each time when half of it is gone (0)",
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
    faults.add_argument(
        "--restart-delay",
        metavar="TIME",
        help="how long nodes stay down under crash, power and shutdown: 0, 500ms, 1.2ttl (1.2ttl)",
    )
    faults.add_argument("--seed", metavar="N", help="same seed, same schedule (random, printed)")
    faults.add_argument("--schedule", metavar="FILE", help="play a saved schedule.json, whatever --nemesis says")

    cluster = test.add_argument_group("cluster")
    cluster.add_argument(
        "--cluster", choices=("auto", "process", "docker"), default="auto", help="where servers run (auto)"
    )
    cluster.add_argument("--nodes", default="5", metavar="N", help="lock servers, 1 to 9 (5)")
    cluster.add_argument(
        "--server", default="redis", metavar="NAME", help="redis, valkey, or a path to a server (redis)"
    )
    cluster.add_argument("--persistence", choices=POLICIES, default="none", help="what a node keeps on disk (none)")
    cluster.add_argument(
        "--disks", action="store_true", help="a file system for each node (root); power cuts bring them anyway"
    )
    cluster.add_argument("--disk-fs", choices=FILE_SYSTEMS, default="ext4", help="its kind (ext4)")
    cluster.add_argument(
        "--witness", choices=("on", "off"), default="on", help="whether the keys on the nodes are watched (on)"
    )
    _add_results(cluster)
    test.set_defaults(do=_test)


def _add_expect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expect", choices=("valid", "violation"), default="valid", help="with `violation`, finding one is exit code 0"
    )


def _add_results(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="DIR", help="folder of run folders (results/runs)"
    )
