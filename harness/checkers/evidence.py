"""How much of the run could be judged? On a machine without enough processor time faults come too late to be seen, no
client reaches a majority, and hardly a section is granted: such a run would be valid for lack of evidence.

The floors are options. A run below one of them is unknown, unless it is a violation: what was found stays found.
They are for loads; a script plays the few steps that it consists of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from fencepost.history import FaultEvent
from fencepost.text import count, milliseconds, plural
from harness.checkers.liveness import last_ns
from harness.figures import CheckerFigures, Part, Row
from harness.history.fault_windows import majority_windows, merged
from harness.history.recorded import Recorded
from harness.verdict import Answer

_FITTING: Final = 0.1
"""Of the sections that fit into the load one after the other, the most that are wanted."""
_BUSY_PERCENT: Final = 100.0
"""For how much of the time the threads of a process, taken together, wait for a processor on a busy machine: 200 % and
more in runs that starved, up to 35 % in those that did not."""


class Figures(CheckerFigures, frozen=True):
    """`faults_percent`: how many of the planned faults that were injected were seen to work; None if none was injected.
    `reach_percent`: for how much of the load some client could certainly have reached a majority of nodes, over slow
    links, too, unless liveness is required. `empty_percent`: the longest time in which no client was inside
    (`empty_ms`), as a share of the load. `sections`: granted; `sections_wanted`: the floor for this load."""

    faults_percent: float | None
    reach_percent: float
    empty_percent: float
    empty_ms: float
    sections: int
    sections_wanted: int

    def rows(self) -> Iterator[Row]:
        """`97 % of the faults seen to work; a majority in reach for 82 % of the load; …`."""
        yield Row("judged", "; ".join(f"{name} {text}" for name, text in self._pairs()), order=13)

    def parts(self) -> Iterator[Part]:
        pairs = tuple((f"{name[0].upper()}{name[1:]}", text) for name, text in self._pairs())
        sections = ("Critical sections", f"{count(self.sections)} (at least {count(self.sections_wanted)} wanted)")
        yield Part(
            "How much could be judged",
            order=11,
            hint="Below the floors (--least-faults, --least-reach, --least-sections, --most-empty) a run that is no "
            "violation is unknown.",
            pairs=(*pairs, sections),
        )

    def _pairs(self) -> Iterator[tuple[str, str]]:
        if self.faults_percent is not None:
            yield "faults seen to work", _percent(self.faults_percent)
        yield "a majority in reach for", f"{_percent(self.reach_percent)} of the load"
        yield "longest without a client inside", f"{milliseconds(self.empty_ms)} ({_percent(self.empty_percent)})"


def check(run: Recorded) -> Answer:
    planned = {event.fault: event.holds for event in run.faults if event.event == "injected" and not event.unplanned}
    seen = sum(planned.values())
    unknown = [] if len(run.sections) else ["no client acquired the lock"]
    if run.planned_faults and not seen:
        unknown.append("no planned fault was observed to work")
    begin, end = run.timeline.start_ns, last_ns(run)
    if run.is_scripted or end <= begin:
        return Answer(unknown=tuple(unknown))
    reach = majority_windows(run.config.user_names, run.config.node_names, _barriers(run), run.ends, begin, end)
    empty_ms = _longest_empty_ns(run, begin, end) / 1e6
    figures = Figures(
        faults_percent=100 * seen / len(planned) if planned else None,
        reach_percent=100 * sum(until - since for since, until in reach) / (end - begin),
        empty_percent=100 * empty_ms * 1e6 / (end - begin),
        empty_ms=empty_ms,
        sections=len(run.sections),
        sections_wanted=_sections_wanted(run, (end - begin) / 1e6),
    )
    lacking = [] if unknown else list(_lacking(run, figures, seen, len(planned)))
    if lacking:
        unknown.append(f"too little could be judged: {'; '.join(lacking)}; {_remedy(run)}")
    return Answer(figures, unknown=tuple(unknown))


def _barriers(run: Recorded) -> Sequence[FaultEvent]:
    """The faults that keep clients from nodes. A lock still works over slow links; only its liveness cannot be judged
    meanwhile."""
    if run.config.require == "liveness":
        return run.faults
    return [replace(event, slow_links=()) for event in run.faults]


def _lacking(run: Recorded, figures: Figures, seen: int, injected: int) -> Iterator[str]:
    """What is below its floor, and the floor."""
    config = run.config
    if figures.faults_percent is not None and figures.faults_percent < config.least_faults:
        yield (
            f"{seen} of {plural(injected, 'fault')} seen to work ({_percent(figures.faults_percent)}, at least "
            f"{config.least_faults:g} % wanted)"
        )
    if figures.reach_percent < config.least_reach:
        yield (
            f"a majority certainly in reach for {_percent(figures.reach_percent)} of the load (at least "
            f"{config.least_reach:g} % wanted)"
        )
    if figures.sections < figures.sections_wanted:
        yield f"{plural(figures.sections, 'section')} (at least {figures.sections_wanted} wanted)"
    if figures.empty_percent > config.most_empty:
        yield (
            f"no client inside for {milliseconds(figures.empty_ms)} in one piece ({_percent(figures.empty_percent)} of "
            f"the load, at most {config.most_empty:g} % wanted)"
        )


def _sections_wanted(run: Recorded, load_ms: float) -> int:
    """The floor, or less for a load in which few sections fit. Times inside and rests are the loads' means."""
    loads, users = run.config.all_loads, len(run.config.user_names)
    stay_ms = float(np.mean([load.hold.mean_ms for load in loads]))
    rest_ms = float(np.mean([load.think.mean_ms for load in loads]))
    each_ms = max(stay_ms, (stay_ms + rest_ms) / users)
    fitting = load_ms / each_ms if each_ms else np.inf
    return int(min(run.config.least_sections, _FITTING * fitting))


def _longest_empty_ns(run: Recorded, begin: int, end: int) -> int:
    """The longest time within the load in which no client was inside."""
    sections = run.sections
    inside = merged(zip(sections["start_ns"].tolist(), sections["end_ns"].tolist(), strict=True), begin, end)
    edges = [begin, *(at for window in inside for at in window), end]
    return max(edges[at + 1] - edges[at] for at in range(0, len(edges), 2))


def _remedy(run: Recorded) -> str:
    """What to do about it. A busy machine is the usual cause."""
    waited = [100 * one.waited_ns / one.over_ns for one in run.lags if one.over_ns]
    if max(waited, default=0.0) >= _BUSY_PERCENT:
        return "the machine was too busy, make fewer runs at once"
    return "make a longer run (--duration)"


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 1 or not value else f"{value:.2g} %"
