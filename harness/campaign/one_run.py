"""One run of a campaign and the line that it leaves: the same whether the command makes it or one of many workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from time import monotonic
from typing import Any

import msgspec

from fencepost.errors import FencepostError, UsageError
from harness.campaign.example_timeline import moment_of, other_moment_of, whole_run
from harness.campaign.folder import RunLine
from harness.campaign.measure import measure
from harness.campaign.plan_order import Slot
from harness.campaign.provenance import versions_of
from harness.config import RunConfig
from harness.options import parse_replacements, parse_run
from harness.run.messages import Failed
from harness.run.prepare import prepare, prepare_setup
from harness.run.snapshot import Display
from harness.scripts import play as scripted
from harness.scripts.experiment import Experiment, find_experiments
from harness.session import judge_and_draw, new_folder, record_run
from harness.store.run_folder import RunFolder
from harness.verdict import breaking


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A run to make. `words`: its options of `fencepost test`, or of `fencepost script` if it plays the experiment
    `script`. `results`: where its folder goes; empty if it is to be sent back. `at_once`: how many
    runs are made at the same time. `ends_when`: `module:function`, polled with the run's folder during the run;
    True stops it early. Empty: it goes on to its end."""

    cell: str
    seed: int
    words: tuple[str, ...]
    results: str
    revision: str
    at_once: int = 1
    script: str = ""
    ends_when: str = ""

    @property
    def slot(self) -> Slot:
        return Slot(self.cell, self.seed)


class Made(msgspec.Struct, frozen=True, tag=True):
    """What became of it. `line`: for the record; None if it was asked to stop, because such a run does not count.
    `moment`: of its first violation, for the page; of a scripted one the whole run. `failure`: why it was aborted."""

    line: RunLine | None = None
    moment: dict[str, Any] | None = None
    failure: Failed | None = None


def config_of(script: str, words: Sequence[str], *, to_be_made: bool = True) -> RunConfig:
    """The configuration of such a run. If the run is `to_be_made`, also checks that this machine can make it, as far as
    that can be told beforehand: one that is on record needs neither its lock nor a server. Raises UsageError and
    BrokenEnvironmentError."""
    config = _scripted_config(_experiment(script), words) if script else parse_run(words)
    if to_be_made:
        (prepare_setup if script else prepare)(config)
    return config


def make(
    order: Order,
    showing: AbstractContextManager[Display],
    is_interrupted: Callable[[], bool],
) -> Made:
    """Make the run and judge it. `showing`: entered while the run is on. Raises FencepostError if it cannot begin."""
    began = monotonic()
    experiment, run, record = _begun(order)
    failure: FencepostError | None = None
    try:
        with showing as display:
            record(display)
    except FencepostError as error:
        failure = error
    if is_interrupted() or ((timeline := run.read_timeline()) is not None and timeline.interrupted):
        return Made()
    if failure is not None:
        return Made(_line(order, run, "broke off", began, error=str(failure)), failure=Failed.of(failure))
    judged = judge_and_draw(run)
    recorded, verdict = judged.recorded, judged.verdict
    if experiment is None:
        outcome, moment = None, moment_of(recorded) or other_moment_of(recorded, verdict)
    else:
        outcome = scripted.judge_expectation(experiment, verdict).name.lower()
        moment = whole_run(recorded, experiment.claim)
    found = breaking(verdict) if verdict.verdict == "violation" else ()
    line = _line(
        order, run, verdict.verdict, began,
        violation=found[0].text if found else None,
        figures=measure(recorded, verdict, judged.environment, judged.explained),
        versions=versions_of(judged.environment),
        outcome=outcome,
    )  # fmt: skip
    return Made(line, {"folder": run.name, "seed": order.seed, **moment} if moment else None)


def _begun(order: Order) -> tuple[Experiment | None, RunFolder, Callable[[Display], None]]:
    """The experiment, if one is played; the new folder; and what fills it."""
    results = Path(order.results)
    if order.script:
        experiment = _experiment(order.script)
        setup = prepare_setup(_scripted_config(experiment, order.words))
        run = scripted.new_folder(experiment, setup, order.script, results)
        return experiment, run, partial(scripted.record, experiment, setup, order.script, run)
    prepared = prepare(parse_run(order.words))
    run = new_folder(prepared, results)
    enough = partial(resolve_name(order.ends_when), run) if order.ends_when else None
    return None, run, lambda display: record_run(prepared, run, display, enough)


def _scripted_config(experiment: Experiment, words: Sequence[str]) -> RunConfig:
    return experiment.config(**parse_replacements("script", words))


def _experiment(script: str) -> Experiment:
    """The experiment of this name. Raises UsageError for several, or none."""
    experiments = find_experiments(script)
    if len(experiments) != 1:
        raise UsageError(f"{script} is {len(experiments)} experiments; name one of them")
    return experiments[0]


def _line(order: Order, run: RunFolder, verdict: str, began: float, **more: Any) -> RunLine:
    return RunLine(
        cell=order.cell,
        seed=order.seed,
        folder=run.name,
        verdict=verdict,
        took_s=monotonic() - began,
        revision=order.revision,
        at_once=order.at_once,
        **more,
    )
