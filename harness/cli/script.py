"""`fencepost script`: play scripted experiments."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import msgspec

from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.options import Option
from harness.cli.command import Call, Command
from harness.config import RESULTS
from harness.options import Results

if TYPE_CHECKING:
    from rich.console import Console


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    target: Annotated[str | None, Option("NAME", "an experiment, all, FILE.py or FILE.py:function")] = None
    list: Annotated[bool, Option("--list", "list the experiments that ship with fencepost")] = False
    times: Annotated[int, Option("--times", "play each so often", low=1, high=1_000)] = 1
    results: Results = RESULTS


def _script(call: Call, out: Console) -> int:
    """Check everything, then play one experiment after the other, and again; the worst outcome is the exit code. Of
    several runs, one that breaks off does not end the others; its error is raised at the end."""
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
    codes: list[Outcome] = []
    ended = {each.name: Counter[str]() for each in found}
    broken: BrokenEnvironmentError | None = None
    for each, setup in setups * arguments.times:
        target = each.name if arguments.target == "all" else arguments.target
        try:
            outcome, folder = make_experiment(each, setup, target, arguments.results, out)
        except BrokenEnvironmentError as error:
            if len(setups) * arguments.times == 1:
                raise
            out.print(f"{each.name}: {error}", soft_wrap=True)
            ended[each.name]["broke off"] += 1
            broken = broken or error
            continue
        codes.append(outcome)
        ended[each.name][outcome.name.lower()] += 1
        if (timeline := folder.read_timeline()) is not None and timeline.interrupted:
            break
    if len(setups) * arguments.times > 1:
        for name, counts in ended.items():
            if counts:
                out.print(f"{_in_words(counts, arguments.times):<20} {name}")
    if broken is not None:
        raise broken
    return Outcome.FAILED if Outcome.FAILED in codes else max(codes)


def _in_words(counts: Counter[str], times: int) -> str:
    """`held`; of several runs `20 held`, or `19 held, 1 unknown`."""
    return ", ".join(word if times == 1 else f"{number} {word}" for word, number in counts.most_common())


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
