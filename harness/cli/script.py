"""The command line of scripted experiments: `fencepost script`."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from fencepost.errors import UsageError
from fencepost.units import parse_duration_ms

_CHOSEN = ("cluster", "lock", "lock_command", "persistence", "fencing", "server", "disk_fs")


def add_script(commands: argparse._SubParsersAction[Any]) -> argparse.ArgumentParser:
    """The command `script`, without the option for the folder of the runs; the parser, to add that to."""
    from cluster.disk import FILE_SYSTEMS
    from cluster.persistence import POLICIES

    script: argparse.ArgumentParser = commands.add_parser(
        "script",
        help="play a scripted experiment",
        description="Play scripted experiments: clients, nodes and links are told what to do step by step, and the "
        "judged history must be what was expected. See docs/experiments.md.",
        epilog="exit codes: 0 every expectation held, 1 one failed, 2 one is unknown, 254 bad arguments, 255 the "
        "harness or its surroundings failed",
    )
    script.add_argument("target", nargs="?", metavar="NAME", help="an experiment, all, FILE.py or FILE.py:function")
    script.add_argument("--list", action="store_true", help="list the shipped experiments")
    changed = script.add_argument_group("instead of what the experiment says")
    changed.add_argument("--lock", metavar="NAME", help="another lock")
    changed.add_argument("--lock-command", metavar="CMD", help="a program that speaks the lock protocol")
    changed.add_argument("--persistence", choices=POLICIES, help="another policy")
    changed.add_argument("--fencing", choices=("none", "writes", "all"), help="who shows a token")
    changed.add_argument("--ttl", metavar="TIME", help="another lease time")
    where = script.add_argument_group("where")
    where.add_argument("--cluster", choices=("auto", "process", "docker"), help="where servers run (auto)")
    where.add_argument("--server", metavar="NAME", help="redis, valkey, or a path to a server (redis)")
    where.add_argument("--disk-fs", choices=FILE_SYSTEMS, help="the file system of disks (ext4)")
    script.set_defaults(do=_script)
    return script


def _script(arguments: argparse.Namespace, out: Console) -> int:
    """Check everything, then play one experiment after the other; the worst outcome is the exit code."""
    from harness.run.prepare import prepare_setup, remove_leftovers
    from harness.scripts.experiment import check_settings, find_experiments, shipped_experiments
    from harness.scripts.play import Outcome, make_experiment

    if arguments.list:
        for each in shipped_experiments().values():
            out.print(f"{each.name}\n    {each.claim.splitlines()[0]}\n    expected: {each.expect.says}", markup=False)
        return 0
    if arguments.target is None:
        raise UsageError("which experiment? give a NAME of `fencepost script --list`, all, or a FILE.py")
    chosen = _chosen(arguments)
    setups = []
    for each in find_experiments(arguments.target):
        config = each.config(**chosen)
        check_settings(each, config)
        setups.append((each, prepare_setup(config)))
    remove_leftovers(out)
    outcomes: list[tuple[str, Outcome]] = []
    for each, setup in setups:
        target = each.name if arguments.target == "all" else arguments.target
        outcome, _ = make_experiment(each, setup, target, arguments.results, out)
        outcomes.append((each.name, outcome))
    if len(outcomes) > 1:
        for name, outcome in outcomes:
            out.print(f"{outcome.name.lower():<8} {name}", markup=False)
    codes = [outcome for _, outcome in outcomes]
    return Outcome.FAILED if Outcome.FAILED in codes else max(codes)


def _chosen(arguments: argparse.Namespace) -> dict[str, object]:
    """What the user wants otherwise, as fields of a RunConfig."""
    chosen: dict[str, object] = {name: value for name in _CHOSEN if (value := getattr(arguments, name)) is not None}
    if arguments.ttl is not None:
        try:
            chosen["ttl_ms"] = round(parse_duration_ms(arguments.ttl))
        except UsageError as error:
            raise UsageError(f"--ttl: {error}") from None
    return chosen
