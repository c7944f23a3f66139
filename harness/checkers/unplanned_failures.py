"""What failed without a planned fault: servers that went down or stalled, clients that were stopped from outside, and
faults that were ended early from outside.

For every other checker, such a failure is a fault in force like any other. It breaks no promise by itself, and a
run that could go on is judged as usual. A client that was not given a processor did not fail: that is the machine's
doing, and told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from fencepost.history import STARVATION
from fencepost.text import number, plural, printable
from harness.figures import CheckerFigures, Row, Tile
from harness.history.fault_windows import Window, windows
from harness.history.recorded import Recorded
from harness.verdict import Answer

_SHOWN: Final = 4


class Failure(msgspec.Struct, frozen=True):
    """`from_ms`, `to_ms`: when it certainly was so, since the start of the load; `to_ms` is None if it did not end."""

    what: str
    from_ms: float
    to_ms: float | None


class Undone(msgspec.Struct, frozen=True):
    """`what`: the fault that ended early for the node or client `whom`; `at_ms`: when that was noticed."""

    what: str
    whom: str
    at_ms: float


class Figures(CheckerFigures, frozen=True):
    """`failures`: the unplanned faults; `undone`: the faults that were ended early from outside; `starved`: when
    clients were not scheduled. All in the order of time."""

    failures: tuple[Failure, ...] = ()
    undone: tuple[Undone, ...] = ()
    starved: tuple[Failure, ...] = ()

    def rows(self) -> Iterator[Row]:
        """`2 failures that no fault caused: n2 went down (from 4.1 s on); c1 was stopped (6 to 7.5 s)`."""
        if self.failures:
            text = f"{plural(len(self.failures), 'failure')} that no fault caused: {_times(self.failures)}"
            yield Row("unasked", text, order=12, is_input=True)
        if self.starved:
            yield Row("CPU", f"CPU starvation: {_times(self.starved)}", order=12, is_input=True)
        if self.undone:
            times = [
                f"{printable(one.what)} on {printable(one.whom)} at {number(one.at_ms / 1e3)} s" for one in self.undone
            ]
            yield Row("undone", f"faults ended early from outside: {_listed(times)}", order=13, is_input=True)

    def tiles(self) -> Iterator[Tile]:
        if self.failures:
            note = "servers or clients that failed without a planned fault"
            yield Tile("Unplanned failures", f"{len(self.failures):,}", note, "warn", order=91)


def check(run: Recorded) -> Answer:
    """No figures where nothing failed that was not planned. What was over before the load began disturbed no client."""
    unplanned = [
        window
        for window in windows(run.faults)
        if window.event.unplanned and (window.to_ns is None or window.to_ns > run.timeline.start_ns)
    ]
    failures = tuple(_failure(run, one) for one in unplanned if one.event.fault_class != STARVATION)
    starved = tuple(_failure(run, one) for one in unplanned if one.event.fault_class == STARVATION)
    early = sorted((event for event in run.faults if event.event == "undone"), key=lambda event: event.done_ns)
    undone = tuple(
        Undone(event.what, whom, run.at_ms(event.done_ns))
        for event in early
        for whom in (*event.nodes, *event.paused_clients)
    )
    return Answer(Figures(failures, undone, starved)) if failures or undone or starved else Answer()


def _failure(run: Recorded, window: Window) -> Failure:
    to_ms = None if window.to_ns is None else run.at_ms(window.to_ns)
    return Failure(window.event.what, run.at_ms(window.from_ns), to_ms)


def _times(failures: Iterable[Failure]) -> str:
    return _listed([f"{printable(one.what)} ({_when(one)})" for one in failures])


def _listed(texts: list[str]) -> str:
    more = len(texts) - _SHOWN
    return "; ".join([*texts[:_SHOWN], f"and {more:,} more"] if more > 0 else texts)


def _when(one: Failure) -> str:
    if one.to_ms is None:
        return f"from {number(one.from_ms / 1e3)} s on"
    return f"{number(one.from_ms / 1e3)} to {number(one.to_ms / 1e3)} s"
