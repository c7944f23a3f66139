"""A scripted run: play an experiment, judge it, and say whether its expectation held."""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from pathlib import Path

from rich.console import Console

from fencepost.errors import FencepostError
from harness.report.progress import Progress
from harness.run.plan import Setup
from harness.run.snapshot import Display
from harness.scripts.experiment import Experiment, describe
from harness.scripts.steps import Say, play_steps
from harness.session import being_recorded, report_run, say_what_is_missing, setup_in_words
from harness.store.run_folder import RunFolder
from harness.verdict import Verdict


class ExpectationOutcome(IntEnum):
    """Whether the expectation held; the number is the exit code. `UNKNOWN`: the run neither confirms nor refutes it."""

    HELD = 0
    FAILED = 1
    UNKNOWN = 2


def make_experiment(
    experiment: Experiment, setup: Setup, target: str, results: Path, out: Console
) -> tuple[ExpectationOutcome, RunFolder]:
    """Run an experiment, judge it, show it, and return the outcome and the run's folder. Raises FencepostError if it
    was aborted; everything recorded until then stays in the run's folder."""
    folder = new_folder(experiment, setup, target, results)
    out.print(f"{experiment.name}: {' '.join(experiment.claim.split())}")
    out.print(f"expected: {experiment.expect.says}")
    out.print(f"{setup_in_words(setup)}, persistence {setup.config.persistence}")
    say_what_is_missing(setup, out)
    try:
        with Progress(out, plain_interval_s=float("inf")) as progress:
            record(experiment, setup, target, folder, progress, partial(out.print, soft_wrap=True))
    except FencepostError:
        out.print(f"experiment aborted; `fencepost analyze {folder.path}` judges what was recorded")
        raise
    from harness.checkers.judge import recorded_verdict

    report_run(folder, out)
    verdict = recorded_verdict(folder)
    assert verdict is not None
    outcome = judge_expectation(experiment, verdict)
    word = "held" if outcome is ExpectationOutcome.HELD else outcome.name
    out.print(f"expected: {experiment.expect.says} — {word}")
    out.print()
    return outcome, folder


def new_folder(experiment: Experiment, setup: Setup, target: str, results: Path) -> RunFolder:
    """Create a folder in `results` for a run of the experiment. `target`: what the command line calls it."""
    folder = RunFolder.create(results, setup.config)
    folder.write_experiment(describe(experiment, setup.config, target))
    return folder


def record(
    experiment: Experiment, setup: Setup, target: str, folder: RunFolder, display: Display, say: Say = lambda _: None
) -> None:
    """Play the steps; `say` is given a line for each. Raises FencepostError if it was aborted."""
    with being_recorded(folder, setup) as state:
        play_steps(experiment, target, setup, folder, state, display, say)


def judge_expectation(experiment: Experiment, verdict: Verdict) -> ExpectationOutcome:
    """Whether the verdict confirms the expectation. A run that was cut short, or whose record is incomplete, confirms
    nothing."""
    if verdict.unknown:
        return ExpectationOutcome.UNKNOWN
    return ExpectationOutcome.HELD if experiment.expect.holds(verdict) else ExpectationOutcome.FAILED
