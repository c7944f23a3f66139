"""How much of the run could be judged? On a machine without enough processor time faults come too late to be seen, no
client reaches a majority, and hardly a section is granted: such a run would be valid for lack of evidence. So would one
whose harness or clients were starved of CPU most of the time.

The floors are options. A run below one of them is unknown, unless it is a violation: what was found stays found.
They are for loads; a script plays the few steps that it consists of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from fencepost.history import HARNESS, FaultEvent
from fencepost.text import count, milliseconds, plural, printable
from harness.checkers.liveness import last_ns
from harness.figures import CheckerFigures, Part, Row
from harness.history.fault_windows import majority_windows
from harness.history.groups import columns_of
from harness.history.heartbeats import Lags
from harness.history.recorded import Recorded
from harness.promises import Promise, required
from harness.verdict import Answer

_FITTING: Final = 0.1
"""Of the sections that fit into the load one after the other, the most that are wanted."""
_STARVED_OVER_NS: Final = 10_000_000_000
"""CPU starvation is a share of at least so much time: in a shorter one the start of a process weighs too much."""


class Figures(CheckerFigures, frozen=True):
    """`faults_percent`: how many of the planned faults that were injected were verified active; None if none was
    injected. `reach_percent`: for how much of the load some client could certainly have reached a majority of nodes,
    over slow links, too, unless liveness is required. `empty_percent`: the longest time in which no client was inside
    (`empty_ms`), as a share of the load. `starved`: the process, the harness or a client, that waited longest for a
    processor, and `starved_percent` for how much of the load; None if no process told of ten seconds or more.
    `sections`: granted; `sections_wanted`: the floor for this load."""

    faults_percent: float | None
    reach_percent: float
    empty_percent: float
    empty_ms: float
    sections: int
    sections_wanted: int
    starved: str | None = None
    starved_percent: float = 0.0

    def rows(self) -> Iterator[Row]:
        """`97 % of the faults verified active; a majority in reach for 82 % of the load; …`."""
        yield Row("judged", "; ".join(f"{name} {text}" for name, text in self._pairs()), order=13)

    def parts(self) -> Iterator[Part]:
        pairs = tuple((f"{name[0].upper()}{name[1:]}", text) for name, text in self._pairs())
        sections = ("Critical sections", f"{count(self.sections)} (at least {count(self.sections_wanted)} wanted)")
        if self.starved is not None:
            waited = f"{_percent(self.starved_percent)} of the load ({self.starved})"
            pairs = (*pairs, ("Most CPU starvation", waited))
        yield Part(
            "How much could be judged",
            order=11,
            hint="Below the floors (--least-faults, --least-reach, --least-sections, --most-empty, --most-starved) a "
            "run that is no violation is unknown.",
            pairs=(*pairs, sections),
        )

    def _pairs(self) -> Iterator[tuple[str, str]]:
        if self.faults_percent is not None:
            yield "faults verified active", _percent(self.faults_percent)
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
    reach = majority_windows(run.config.user_names, run.nodes, _barriers(run), run.ends, begin, end, group=run.group)
    empty_ms = _longest_empty_ns(run, begin, end) / 1e6
    starved, starved_percent = _starved(run.lags)
    figures = Figures(
        faults_percent=100 * seen / len(planned) if planned else None,
        reach_percent=_percent_of(reach, begin, end),
        empty_percent=100 * empty_ms * 1e6 / (end - begin),
        empty_ms=empty_ms,
        sections=len(run.sections),
        sections_wanted=_sections_wanted(run, (end - begin) / 1e6),
        starved=starved,
        starved_percent=starved_percent,
    )
    lacking = [] if unknown else list(_lacking(run, figures, seen, len(planned)))
    if lacking:
        is_busy = figures.starved_percent > run.config.most_starved
        remedy = "the machine was too busy, make fewer runs at once" if is_busy else "make a longer run (--duration)"
        unknown.append(f"too little could be judged: {'; '.join(lacking)}; {remedy}")
    untested: tuple[Promise, ...] = ("liveness",) if _is_liveness_untested(run, begin, end) else ()
    return Answer(figures, unknown=tuple(unknown), untested=untested)


def _percent_of(windows: Iterable[tuple[int, int]], begin: int, end: int) -> float:
    return 100 * sum(until - since for since, until in windows) / (end - begin)


def _barriers(run: Recorded) -> Sequence[FaultEvent]:
    """The faults that keep clients from nodes. A lock still works over slow links; only its liveness cannot be judged
    meanwhile."""
    if "liveness" in required(run.config.require):
        return run.faults
    return [replace(event, slow_links=()) for event in run.faults]


def _is_liveness_untested(run: Recorded, begin: int, end: int) -> bool:
    """Whether links were cut or slow for so much of the load that nothing can be said of a lock's liveness."""
    calm = majority_windows(run.config.user_names, run.nodes, run.faults, run.ends, begin, end, group=run.group)
    return _percent_of(calm, begin, end) < run.config.least_reach


def _lacking(run: Recorded, figures: Figures, seen: int, injected: int) -> Iterator[str]:
    """What is below its floor, and the floor."""
    config = run.config
    if figures.faults_percent is not None and figures.faults_percent < config.least_faults:
        yield (
            f"{seen} of {plural(injected, 'fault')} verified active ({_percent(figures.faults_percent)}, at least "
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
    if figures.starved_percent > config.most_starved:
        yield (
            f"CPU starvation of {figures.starved} for {_percent(figures.starved_percent)} of the load (at most "
            f"{config.most_starved:g} % wanted)"
        )


def _starved(lags: Iterable[Lags]) -> tuple[str | None, float]:
    """The process that waited longest, over all of its lives, and for how much of the time in percent."""
    waited: defaultdict[str, int] = defaultdict(int)
    over: defaultdict[str, int] = defaultdict(int)
    for one in lags:
        waited[one.process] += one.waited_ns
        over[one.process] += one.over_ns
    shares = [(100 * waited[process] / over[process], process) for process in over if over[process] >= _STARVED_OVER_NS]
    if not shares:
        return None, 0.0
    percent, process = max(shares)
    return "the harness" if process == HARNESS else printable(process), percent


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
    started, ended = columns_of(run.sections, "start_ns", "end_ns")
    since, until = np.maximum(started, begin), np.minimum(ended, end)
    within = np.flatnonzero(until >= since)
    order = within[np.argsort(since[within])]
    left = np.maximum.accumulate(np.append(begin, until[order]))
    return int((np.append(since[order], end) - left).max())


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 1 or not value else f"{value:.2g} %"
