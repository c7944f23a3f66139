"""How busy was the machine? Where clients wake up late and faults are injected late, the run is not the planned one.

Nothing here is a finding: the judge knows from the record when clients did not run
(`harness.history.heartbeats`), and blames no lock for it. It says how far rates and costs of this run can be
compared with those of a quiet machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from fencepost.history import HARNESS
from fencepost.text import milliseconds, number, printable
from harness.figures import CheckerFigures, Part, Row
from harness.history.heartbeats import Lags
from harness.history.recorded import Recorded
from harness.verdict import Answer


class Late(msgspec.Struct, frozen=True):
    """How late the beats of a process came, of all clients together. `waited_percent`: CPU starvation: for how much of
    the time the thread that waited longest was ready to run and had no processor; of clients, the one that waited
    longest."""

    p99_ms: float
    longest_ms: float
    waited_percent: float


class LateFault(msgspec.Struct, frozen=True):
    """The planned fault whose injection began latest after it was due, and by how much."""

    fault: str
    late_ms: float


class Figures(CheckerFigures, frozen=True):
    """`clients`, `harness`: None if no beat of them is on record. `stolen_percent`: for how much of the time a
    hypervisor gave the processors to others. `latest`: None if no fault of a schedule was injected."""

    clients: Late | None
    harness: Late | None
    stolen_percent: float
    latest: LateFault | None

    def rows(self) -> Iterator[Row]:
        """`scheduling delay: clients up to 21 ms (p99 3.0 ms), the harness up to 4.0 ms (p99 1.0 ms); …`"""
        yield Row("machine", "; ".join(self._texts()), order=95)

    def parts(self) -> Iterator[Part]:
        yield Part(
            "The machine",
            order=95,
            hint="How late processes were scheduled, and how late faults were injected. On a quiet machine all of "
            "this is a few milliseconds.",
            pairs=tuple(self._pairs()),
        )

    def _texts(self) -> Iterator[str]:
        named = [("clients", self.clients), ("the harness", self.harness)]
        delays = [
            f"{who} up to {milliseconds(late.longest_ms)} (p99 {milliseconds(late.p99_ms)})"
            for who, late in named
            if late
        ]
        if delays:
            yield f"scheduling delay: {', '.join(delays)}"
        if self.clients:
            yield f"CPU starvation of a client: up to {number(self.clients.waited_percent)} % of the time"
        if self.stolen_percent:
            yield f"{number(self.stolen_percent)} % of the processors' time was taken by a hypervisor"
        if self.latest:
            yield f"faults were injected up to {milliseconds(self.latest.late_ms)} late"

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for who, late in (("the clients", self.clients), ("the harness", self.harness)):
            if late:
                waited = f"CPU starvation {number(late.waited_percent)} % of the time"
                delay = f"p99 {milliseconds(late.p99_ms)}, longest {milliseconds(late.longest_ms)}"
                yield f"Scheduling delay of {who}", f"{delay}; {waited}"
        yield "Processor time taken by a hypervisor", f"{number(self.stolen_percent)} %"
        if self.latest:
            fault = printable(self.latest.fault)
            yield "Delay of injected faults", f"up to {milliseconds(self.latest.late_ms)} ({fault})"


def check(run: Recorded) -> Answer:
    """No figures for a run that kept no beats."""
    clients = [one for one in run.lags if one.process != HARNESS]
    harness = [one for one in run.lags if one.process == HARNESS]
    if not run.lags:
        return Answer()
    stolen = [_percent(one.stolen_ns, one.over_ns) for one in harness]
    return Answer(Figures(_late(clients), _late(harness), max(stolen, default=0.0), _latest(run)))


def _late(of: Sequence[Lags]) -> Late | None:
    late_ms = np.concatenate([one.late_ms for one in of]) if of else np.zeros(0)
    if not len(late_ms):
        return None
    return Late(
        p99_ms=float(np.quantile(late_ms, 0.99)),
        longest_ms=float(late_ms.max()),
        waited_percent=max(_percent(one.waited_ns, one.over_ns) for one in of),
    )


def _percent(part_ns: int, over_ns: int) -> float:
    return 100 * part_ns / over_ns if over_ns else 0.0


def _latest(run: Recorded) -> LateFault | None:
    late = [
        LateFault(event.fault, (event.began_ns - run.timeline.start_ns) / 1e6 - run.planned_ms[event.fault])
        for event in run.faults
        if event.event == "injected" and not event.unplanned and event.fault in run.planned_ms
    ]
    return max(late, key=lambda one: one.late_ms, default=None)
