"""`fencepost script`: play scripted experiments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.options import Option
from harness.campaign.parallelism import Hands, OnScheduler, SideBySide
from harness.cli.command import Call, Command
from harness.config import RESULTS
from harness.options import Results, options_of

if TYPE_CHECKING:
    _Ended = Mapping[str, Counter[str]]


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    target: Annotated[str | None, Option("NAME", "an experiment, all, FILE.py or FILE.py:function")] = None
    list: Annotated[bool, Option("--list", "list the experiments that ship with fencepost")] = False
    times: Annotated[int, Option("--times", "repetitions", low=1, high=1_000)] = 1
    workers: SideBySide = None
    scheduler: OnScheduler = None
    report: Annotated[
        Path | None,
        Option(
            "--report",
            "with --workers: folder of the record; the same one goes on after an interruption",
            metavar="DIR",
            shown_default="results/scripts/TIME",
        ),
    ] = None
    results: Results = RESULTS


def _script(call: Call) -> int:
    """The worst outcome is the exit code. Of several runs, one that is aborted does not end the others; its error is
    raised at the end."""
    from harness.scripts.experiment import shipped_experiments
    from harness.scripts.play import ExpectationOutcome

    arguments: Arguments = call.arguments
    if arguments.list:
        for each in shipped_experiments().values():
            call.out.print(each.name)
            call.out.print(f"    {each.claim.splitlines()[0]}")
            call.out.print(f"    expected: {each.expect.says}")
        return 0
    if arguments.target is None:
        raise UsageError("which experiment? give a NAME of `fencepost script --list`, all, or a FILE.py")
    hands = Hands.found(arguments.workers, arguments.scheduler)
    if arguments.report and not hands.are_many:
        raise UsageError("--report is for parallel runs; add --workers N")
    ended, broken = _side_by_side(call, hands) if hands.are_many else _one_by_one(call)
    runs = sum((Counter(counts) for counts in ended.values()), Counter[str]())
    if len(ended) * arguments.times > 1:
        for name, counts in ended.items():
            if counts:
                call.out.print(f"{_in_words(counts, arguments.times):<20} {name}")
    if broken is not None:
        raise broken
    if runs["failed"]:
        return ExpectationOutcome.FAILED
    return ExpectationOutcome.UNKNOWN if runs["unknown"] or runs["not made"] else ExpectationOutcome.HELD


def _one_by_one(call: Call) -> tuple[_Ended, BrokenEnvironmentError | None]:
    """Check everything, then play one experiment after the other, and again, and show each."""
    from harness.run.interruption import Interruption
    from harness.run.prepare import prepare_setup, remove_leftovers
    from harness.scripts.experiment import find_experiments
    from harness.scripts.play import make_experiment

    arguments: Arguments = call.arguments
    target = arguments.target or ""
    found = find_experiments(target)
    setups = [(each, prepare_setup(each.config(**call.replaced))) for each in found]
    remove_leftovers(call.out)
    ended = {each.name: Counter[str]() for each in found}
    broken: BrokenEnvironmentError | None = None
    with Interruption().watch() as interruption:
        for each, setup in setups * arguments.times:
            name = each.name if target == "all" else target
            try:
                outcome, _ = make_experiment(each, setup, name, arguments.results, call.out)
            except BrokenEnvironmentError as error:
                if len(setups) * arguments.times > 1:
                    call.out.print(f"{each.name}: {error}", soft_wrap=True)
                ended[each.name]["aborted"] += 1
                broken = broken or error
            else:
                ended[each.name][outcome.name.lower()] += 1
            if interruption:
                break
    return ended, broken


def _side_by_side(call: Call, hands: Hands) -> tuple[_Ended, BrokenEnvironmentError | None]:
    from harness.campaign.experiments import play_side_by_side

    arguments: Arguments = call.arguments
    options = {
        each.name: each.text(call.replaced[each.field]) if each.takes_value else ""
        for each in options_of("script")
        if each.field in call.replaced
    }
    return play_side_by_side(
        arguments.target or "",
        arguments.times,
        options,
        arguments.report,
        arguments.results,
        hands=hands,
        command=call.to_repeat,
        out=call.out,
    )


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
    epilog="""examples:
  fencepost script crash-without-persistence
  fencepost script all --times 20 --workers 2    is the outcome always the same?

exit codes: 0 every expectation held, 1 one failed, 2 one is unknown, 254 bad arguments, 255 the harness
or its environment failed
""",
)
