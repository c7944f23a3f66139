"""`fencepost script`: play scripted experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from fencepost.errors import UsageError
from fencepost.options import Option
from harness.cli.command import Call, Command
from harness.config import RESULTS
from harness.options import Results

if TYPE_CHECKING:
    from rich.console import Console


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    target: Annotated[str | None, Option("NAME", "an experiment, all, FILE.py or FILE.py:function")] = None
    list: Annotated[bool, Option("--list", "list the experiments that ship with fencepost")] = False
    results: Results = RESULTS


def _script(call: Call, out: Console) -> int:
    """Check everything, then play one experiment after the other; the worst outcome is the exit code."""
    from harness.run.prepare import prepare_setup, remove_leftovers
    from harness.scripts.experiment import find_experiments, shipped_experiments
    from harness.scripts.play import Outcome, make_experiment

    arguments: Arguments = call.arguments
    if arguments.list:
        for each in shipped_experiments().values():
            out.print(each.name)
            out.print(f"    {each.claim.splitlines()[0]}")
            out.print(f"    expected: {each.expect.says}")
        return 0
    if arguments.target is None:
        raise UsageError("which experiment? give a NAME of `fencepost script --list`, all, or a FILE.py")
    found = find_experiments(arguments.target)
    setups = [(each, prepare_setup(each.config(**call.replaced))) for each in found]
    remove_leftovers(out)
    outcomes: list[tuple[str, Outcome]] = []
    for each, setup in setups:
        target = each.name if arguments.target == "all" else arguments.target
        outcome, _ = make_experiment(each, setup, target, arguments.results, out)
        outcomes.append((each.name, outcome))
    if len(outcomes) > 1:
        for name, outcome in outcomes:
            out.print(f"{outcome.name.lower():<8} {name}")
    codes = [outcome for _, outcome in outcomes]
    return Outcome.FAILED if Outcome.FAILED in codes else max(codes)


COMMAND = Command(
    description="""
Run scripted experiments: a script controls clients, nodes and links step by step, and the judged history must
be what was expected. See docs/experiments.md.""",
    arguments=Arguments,
    do=_script,
    replaces="instead of what the experiment says",
    epilog="""exit codes: 0 every expectation held, 1 one failed, 2 one is unknown, 254 bad arguments, 255 the harness
or its environment failed
""",
)
