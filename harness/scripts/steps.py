"""The steps of an experiment as the scenario of a run, in a sandbox if there is one."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from cluster.lifetime import StateFolder
from fencepost.errors import FencepostError, UsageError
from fencepost.text import printable
from harness.run import sandbox_child
from harness.run.plan import Job, Setup
from harness.run.run import ActiveRun
from harness.run.sandbox_child import WayOut
from harness.run.sandbox_parent import play_inside
from harness.run.snapshot import Display
from harness.scripts.clients import DrivenClientSlot
from harness.scripts.experiment import Experiment, find_experiments
from harness.scripts.stage import Stage, StopRequested
from harness.store.run_folder import RunFolder

Say = Callable[[str], object]


class _ScriptedJob(Job, frozen=True, kw_only=True):
    """The experiment is code, so its name goes over, and `target`: what the command line called it."""

    target: str
    name: str


def play_steps(
    experiment: Experiment,
    target: str,
    setup: Setup,
    folder: RunFolder,
    state: StateFolder,
    display: Display,
    say: Say,
) -> None:
    """Make the run; `say` is given a line for each step. Raises FencepostError when it was aborted, UsageError for a
    mistake in the script."""
    if setup.site.in_sandbox:
        job = _ScriptedJob(setup=setup, folder=folder.path, state=state.path, target=target, name=experiment.name)
        play_inside(__name__, job, state, display, say)
    else:
        ActiveRun(setup, folder, state, display, make_client=DrivenClientSlot).perform(_Scripted(experiment, say))


def main_inside() -> None:
    """What the process in the sandbox does."""
    sandbox_child.main(_ScriptedJob, _play)


def _play(job: _ScriptedJob, way_out: WayOut) -> None:
    experiment = next((each for each in find_experiments(job.target) if each.name == job.name), None)
    if experiment is None:
        raise UsageError(f"{job.target} no longer has an experiment {job.name!r}; it was just changed")
    folder, state = RunFolder(job.folder), StateFolder(job.state)
    run = ActiveRun(job.setup, folder, state, way_out, way_out.interruption, make_client=DrivenClientSlot)
    run.perform(_Scripted(experiment, way_out.say))


class _Scripted:
    """`harness.run.run.Scenario` of an experiment. Every step is shown with its time."""

    def __init__(self, experiment: Experiment, say: Say) -> None:
        self._experiment = experiment
        self._say = say
        self._stage: Stage | None = None

    def play(self, run: ActiveRun) -> None:
        def say(line: str) -> None:
            self._say(f"  {run.elapsed_ms / 1e3:7.3f} s  {printable(line)}")

        self._stage = Stage(run, say)
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
