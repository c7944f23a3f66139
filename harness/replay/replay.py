"""Makes a recorded run again: the same configuration, the same schedule, the same seed for everything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console

from fencepost.errors import UsageError
from fencepost.text import plural
from harness.checkers.judge import exit_code, judge, recorded_verdict
from harness.config import RunConfig
from harness.history.recorded import Recorded
from harness.lock_choices import with_lock_choices
from harness.replay.violation import gravest
from harness.run.prepare import prepare, prepare_setup, remove_leftovers
from harness.scripts.experiment import find_experiments
from harness.scripts.play import make_experiment
from harness.session import as_it_ran, record_and_show, report_run
from harness.store.run_folder import RunFolder
from harness.store.tables import load_recorded
from harness.verdict import Verdict


@dataclass(frozen=True, slots=True)
class SourceRun:
    """A recorded run with the verdict of this version of fencepost. `config`: with the kind of cluster that the run
    really had."""

    folder: RunFolder
    config: RunConfig
    recorded: Recorded
    verdict: Verdict

    @classmethod
    def open(cls, run: Path, results: Path) -> SourceRun:
        """Read a run and judge it, without changing its folder. Raises UsageError."""
        folder = RunFolder.open(run, results)
        recorded = load_recorded(folder)
        config = as_it_ran(recorded.config, folder.read_environment())
        return cls(folder, config, recorded, judge(recorded))

    def scheduled(self, **changed: object) -> RunConfig:
        """The configuration that plays what the run played: its `played.json` if a fault chose its own moments, else
        its `schedule.json`. The new run's folder then names this one. Raises UsageError if the run has neither."""
        files = [self.folder.path / name for name in ("played.json", "schedule.json")]
        there = [path for path in files if path.exists()]
        if not there:
            raise UsageError(f"{self.folder.path} has no schedule.json, so there is nothing to replay")
        config = msgspec.structs.replace(self.config, schedule=str(there[0]), **changed)
        config.check()
        return config


def replay(
    source: SourceRun, times: int, changed: Mapping[str, object], results: Path, *, expect_violation: bool, out: Console
) -> int:
    """Make the run again `times` times, and say how often the result was the same. Returns the exit code of the gravest
    verdict. `changed`: fields of the configuration to replace. Ctrl-C ends the replays; those made so far count."""
    make = _maker(source, changed, results, out)
    remove_leftovers(out)
    verdicts: list[Verdict] = []
    for number in range(1, times + 1):
        if times > 1:
            out.print(f"replay {number} of {times}")
        folder = make()
        verdict, timeline = recorded_verdict(folder), folder.read_timeline()
        assert verdict is not None
        verdicts.append(verdict)
        if timeline is not None and timeline.interrupted:
            break
    out.print(_told(source, verdicts), soft_wrap=True)
    words = [verdict.verdict for verdict in verdicts]
    worst = next(word for word in ("violation", "unknown", "valid") if word in words)
    limits = tuple(limit for verdict in verdicts for limit in verdict.limits)
    gravest_one = msgspec.structs.replace(verdicts[words.index(worst)], limits=limits)
    return exit_code(gravest_one, expect_violation=expect_violation)


def _maker(source: SourceRun, changed: Mapping[str, object], results: Path, out: Console) -> Callable[[], RunFolder]:
    """Returns a function that makes the run once more. Checks everything that can be checked beforehand."""
    script = source.folder.read_experiment()
    if script is None:
        prepared = prepare(with_lock_choices(source.scheduled(**changed), changed))

        def play() -> RunFolder:
            folder = record_and_show(prepared, results, out)
            report_run(folder, out)
            return folder

        return play
    target, name = str(script["target"]), script["name"]
    experiment = next((each for each in find_experiments(target) if each.name == name), None)
    if experiment is None:
        raise UsageError(f"{target} no longer has an experiment {name!r}, so the run cannot be replayed")
    setup = prepare_setup(with_lock_choices(msgspec.structs.replace(source.config, **changed), changed))
    return lambda: make_experiment(experiment, setup, target, results, out)[1]


def _told(source: SourceRun, verdicts: list[Verdict]) -> str:
    """`The same kind of violation (overlap:client) happened again in 2 of 3 replays.`"""
    made = plural(len(verdicts), "replay")
    kind = gravest(source.verdict)
    if kind is None:
        same = sum(verdict.verdict == source.verdict.verdict for verdict in verdicts)
        return f"The run was {source.verdict.verdict}, and so were {same} of {made}: {source.folder.path}"
    seen = sum(kind.among(verdict) is not None for verdict in verdicts)
    return f"The violation of {source.folder.path} ({kind}) happened again in {seen} of {made}."
