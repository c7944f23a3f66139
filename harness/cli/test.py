"""`fencepost test`: make a run and judge it."""

from __future__ import annotations

import sys

from harness.cli.command import Call, Command
from harness.options import RunArguments, config_from


def _test(call: Call) -> int:
    from harness.report.result_file import STANDARD_OUTPUT, errors_written
    from harness.report.terminal import Terminal

    arguments: RunArguments = call.arguments
    with errors_written(arguments.json):
        config = config_from(arguments, call.given)

        from harness.run.prepare import prepare, remove_leftovers
        from harness.session import ResultOptions, make_run

        prepared = prepare(config, arguments.nodes_at)
        out = Terminal(sys.stderr) if arguments.json == STANDARD_OUTPUT else call.out
        remove_leftovers(Terminal(quiet=True) if arguments.quiet else out)
        expects = arguments.expect == "violation"
        wanted = ResultOptions(expects, arguments.json, arguments.verbose, arguments.quiet)
        return make_run(prepared, arguments.results, out, wanted)


def _epilog() -> str:
    from textwrap import fill

    from cluster.registry import servers
    from harness.limits import FIGURES
    from nemesis.registry import nemeses
    from workloads.kinds import summary, workload_names
    from workloads.registry import lock_names

    kinds = "\n".join(f"  {nemesis.name:<10} {nemesis.help}" for nemesis in nemeses().values())
    kinds_of_servers = "\n".join(f"  {server.name:<10} {server.help}" for server in servers().values())
    locks = "\n".join(f"  {info.name:<32} {info.summary}" for info in lock_names())
    workloads = "\n".join(f"  {name:<16} {summary(name)}" for name in workload_names())
    figures = fill(", ".join(FIGURES), 100, initial_indent="  ", subsequent_indent="  ")
    return f"""workloads:
{workloads}

nemeses (join with +, options after a colon: partition:interval=4s,duration=2s+latency):
  none       no faults
{kinds}

servers, for the nodes and for the resource:
{kinds_of_servers}

locks:
{locks}

figures for --limit, of which times need a unit (docs/verdicts.md):
{figures}

examples:
  fencepost test --nemesis partition --duration 30s
  fencepost test --lock redlock --nemesis pause:targets=inside --fencing all --require data
  fencepost test --lock mypackage.locks:MyLock --nemesis partition+crash --cluster docker
  fencepost test --lock control-quorum-of-two --expect violation
  fencepost test --lock redlock --limit "acquire p99 < 200ms" --limit "lost updates = 0"
"""


COMMAND = Command(
    description="Bring up a cluster, let clients use a lock, inject faults, heal, judge.",
    arguments=RunArguments,
    do=_test,
    epilog=_epilog,
    grouped=True,
)
