"""One run of a campaign and the line that it leaves: the same whether the command makes it or one of many workers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from fencepost.errors import FencepostError
from harness.campaign.example_timeline import moment_of
from harness.campaign.folder import RunLine
from harness.campaign.measure import measure
from harness.campaign.order import Slot
from harness.options import parse_run
from harness.run.messages import Failed
from harness.run.prepare import prepare
from harness.run.snapshot import Display
from harness.session import judge_and_draw, new_folder, record_run
from harness.store.run_folder import RunFolder
from harness.verdict import Verdict, breaking

HasShownEnough = Callable[[Slot, RunFolder], bool]
"""Whether the run under way has shown all that is wanted; asked now and then."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A run to make. `words`: its options of `fencepost test`. `results`: where its folder goes; empty if it is to be
    sent to whoever ordered it. `at_once`: how many runs are made at the same time."""

    cell: str
    seed: int
    words: tuple[str, ...]
    results: str
    revision: str
    at_once: int = 1

    @property
    def slot(self) -> Slot:
        return Slot(self.cell, self.seed)


class Made(msgspec.Struct, frozen=True, tag=True):
    """What became of it. `line`: for the record; None if somebody asked to stop, because such a run does not count.
    `moment`: of its first violation, for the page. `failure`: why it broke off."""

    line: RunLine | None = None
    moment: dict[str, Any] | None = None
    failure: Failed | None = None


def make(
    order: Order,
    showing: AbstractContextManager[Display],
    is_interrupted: Callable[[], bool],
    enough: HasShownEnough | None = None,
) -> Made:
    """Make the run and judge it. `showing`: entered while the run is on. Raises FencepostError if it cannot begin."""
    began = monotonic()
    prepared = prepare(parse_run(order.words))
    run = new_folder(prepared, Path(order.results))
    failure: FencepostError | None = None
    try:
        with showing as display:
            record_run(prepared, run, display, enough and partial(enough, order.slot, run))
    except FencepostError as error:
        failure = error
    if is_interrupted() or ((timeline := run.read_timeline()) is not None and timeline.interrupted):
        return Made()
    if failure is not None:
        return Made(_line(order, run, "broke off", began, error=str(failure)), failure=Failed.of(failure))
    judged = judge_and_draw(run)
    recorded, verdict = judged.recorded, judged.verdict
    figures = measure(recorded, verdict, judged.environment, judged.explained)
    line = _line(order, run, verdict.verdict, began, violation=_violation(verdict), figures=figures)
    moment = moment_of(recorded)
    return Made(line, {"folder": run.name, "seed": order.seed, **moment} if moment else None)


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


def _violation(verdict: Verdict) -> str | None:
    found = breaking(verdict) if verdict.verdict == "violation" else ()
    return found[0].text if found else None
