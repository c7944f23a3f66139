"""A scripted run: the experiment's steps as the scenario of a test run, and whether its expectation held."""

from __future__ import annotations

import traceback
from enum import IntEnum
from pathlib import Path

from rich.console import Console

from cluster.lifetime import RunState
from fencepost.errors import FencepostError, UsageError
from fencepost.text import printable
from harness.checkers.judge import recorded_verdict
from harness.report.progress import Progress
from harness.run.test_run import Setup, TestRun
from harness.scripts.clients import DrivenClientSlot
from harness.scripts.experiment import Experiment, describe
from harness.scripts.stage import Stage, StopRequested
from harness.session import report_run, setup_in_words
from harness.store.run_folder import RunFolder
from harness.verdict import Verdict


class Outcome(IntEnum):
    """Whether the expectation held; the number is the exit code. `UNKNOWN`: the run neither confirms nor refutes it."""

    HELD = 0
    FAILED = 1
    UNKNOWN = 2


def make_experiment(
    experiment: Experiment, setup: Setup, target: str, results: Path, out: Console
) -> tuple[Outcome, RunFolder]:
    """Run an experiment, judge it, show it, and return the outcome and the run's folder. Raises FencepostError if it
    broke off; everything recorded until then stays in the run's folder."""
    folder = RunFolder.create(results, setup.config)
    folder.write_experiment(describe(experiment, setup.config, target))
    out.print(f"{experiment.name}: {' '.join(experiment.claim.split())}", markup=False)
    out.print(f"expected: {experiment.expect.says}", markup=False)
    out.print(f"{setup_in_words(setup)}, persistence {setup.config.persistence}", markup=False)
    try:
        with RunState.create(folder.path.name) as state, Progress(out, plain_interval_s=float("inf")) as progress:
            TestRun(setup, folder, state, progress, make_client=DrivenClientSlot).perform(_Scripted(experiment, out))
    except FencepostError:
        out.print(f"the experiment broke off; `fencepost analyze {folder.path}` judges what was recorded", markup=False)
        raise
    report_run(folder, expect_violation=False, out=out)
    verdict = recorded_verdict(folder)
    assert verdict is not None
    outcome = judge_expectation(experiment, verdict)
    words = {Outcome.HELD: "held", Outcome.FAILED: "FAILED", Outcome.UNKNOWN: "UNKNOWN"}
    out.print(f"expected: {experiment.expect.says} — {words[outcome]}\n", markup=False)
    return outcome, folder


def judge_expectation(experiment: Experiment, verdict: Verdict) -> Outcome:
    """Whether the verdict confirms the expectation. A run that was cut short, or whose record is incomplete, confirms
    nothing."""
    if verdict.unknown:
        return Outcome.UNKNOWN
    return Outcome.HELD if experiment.expect.holds(verdict) else Outcome.FAILED


class _Scripted:
    """`harness.run.test_run.Scenario` of an experiment. Prints every step with its time."""

    def __init__(self, experiment: Experiment, out: Console) -> None:
        self._experiment = experiment
        self._out = out
        self._stage: Stage | None = None

    def play(self, test_run: TestRun) -> None:
        def say(line: str) -> None:
            self._out.print(f"  {test_run.elapsed_ms / 1e3:7.3f} s  {printable(line)}", markup=False, soft_wrap=True)

        self._stage = Stage(test_run, say)
        try:
            self._experiment.play(self._stage)
        except StopRequested:
            return
        except FencepostError:
            raise
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1]
            raise UsageError(
                f"the experiment {self._experiment.name} raised {type(error).__name__}: {error} "
                f"({Path(line.filename).name}, line {line.lineno}); fix the script"
            ) from error

    def heal(self) -> None:
        if self._stage is not None:
            self._stage.heal_all()
