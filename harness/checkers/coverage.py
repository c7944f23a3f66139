"""Which steps of the lock the faults hit. A step that no fault of a class ever hit was not tested under that class.

A fault meets a step of a client if it was in force at some time of that step and concerns this client: a link of its
own, a node, or the client itself. A kill meets the step that it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, get_args

import msgspec
import numpy as np

from fencepost.history import ClientEnd, FaultEvent, process_of
from fencepost.text import count
from harness.figures import CheckerFigures, Part, Row, Table
from harness.history.fault_windows import Window, windows
from harness.history.groups import Ints, columns_of
from harness.history.recorded import Recorded
from harness.verdict import Answer
from nemesis.base import FaultClass

STEPS: Final = ("acquire", "extend", "inside", "release", "rest")
_IN_WORDS: Final = {"inside": "in section"}
BRIEF_TTLS: Final = 0.1
LONG_TTLS: Final = 3.0
_ENDED: Final = {
    "acquiring": "acquire",
    "extending": "extend",
    "inside": "inside",
    "reentering": "inside",
    "leaving": "inside",
    "releasing": "release",
    "resting": "rest",
}
"""The step that a client was at when it was killed."""
_LEAST_REST_NS: Final = 1_000_000
"""A client that goes on sooner does not rest."""
_NEVER: Final = 2**62


class Figures(CheckerFigures, frozen=True):
    """`met`: for each class of fault how many times it met each step. Faults that lasted less than a tenth of a TTL, or
    three TTLs or more, are counted apart. `not_tried`: the classes of which no fault took effect."""

    met: dict[str, dict[str, int]]
    not_tried: tuple[str, ...]

    @property
    def by_step(self) -> dict[str, int]:
        return {step: sum(steps[step] for steps in self.met.values()) for step in STEPS}

    def rows(self) -> Iterator[Row]:
        """`9 of 21 classes of fault tried; steps hit: acquire 1,204, extend 0, in section 380, release 402, rest 0`."""
        if not self.met:
            return
        known = len(get_args(FaultClass))
        tried = known - len(self.not_tried)
        hit = ", ".join(f"{_IN_WORDS.get(step, step)} {number:,}" for step, number in self.by_step.items())
        yield Row("coverage", f"{tried} of {known} classes of fault tried; steps hit: {hit}", order=11, is_input=True)

    def parts(self) -> Iterator[Part]:
        if not self.met:
            return
        rows = tuple((name, tuple(count(steps[step]) for step in STEPS)) for name, steps in self.met.items())
        missing = f" Not tried: {', '.join(self.not_tried)}." if self.not_tried else ""
        yield Part(
            "What the faults hit",
            order=40,
            note="How many times a fault of each class was in force while a client that it affects took this step of "
            f"the lock.{missing}",
            tables=(Table("class of fault", STEPS, rows),),
        )


def check(run: Recorded) -> Answer:
    """No figures without planned faults; what failed by itself was not tried."""
    planned = [event for event in run.faults if event.event == "undone" or not event.unplanned]
    if not planned:
        return Answer()
    active = [window for window in windows(planned) if window.took]
    steps = _steps(run)
    met: dict[str, dict[str, int]] = {}
    for window in sorted(active, key=lambda window: _class(window, run.config.ttl_ms)):
        counts = met.setdefault(_class(window, run.config.ttl_ms), dict.fromkeys(STEPS, 0))
        for client in _concerned(window.event, run.config.client_names):
            for step, stretches in steps.get(client, {}).items():
                counts[step] += sum(_overlapping(each, window) for each in stretches)
        for end in run.ends:
            if (ended := _ENDED.get(end.under_way or "")) and _is_of(end, window.event):
                counts[ended] += 1
    tried = {window.event.fault_class or window.event.nemesis for window in active}
    not_tried = tuple(name for name in get_args(FaultClass) if name not in tried)
    return Answer(Figures(met=met, not_tried=not_tried))


class _Stretches(msgspec.Struct, frozen=True):
    """Disjoint stretches of time of one user of the lock, in order."""

    began: Ints
    ended: Ints


def _steps(run: Recorded) -> Mapping[str, Mapping[str, list[_Stretches]]]:
    """When the users of each client process took each step."""
    found: dict[str, dict[str, list[_Stretches]]] = {}
    for (client, _), ops in run.ops.groupby(["client", "life"], observed=True, sort=False):
        own = found.setdefault(process_of(str(client)), {})
        ops = ops.sort_values("invoke_ns", kind="stable")
        f, (invoked, completed) = ops["f"].astype(str).to_numpy(), columns_of(ops, "invoke_ns", "complete_ns")
        for step in ("acquire", "extend", "release"):
            own.setdefault(step, []).append(_Stretches(invoked[f == step], completed[f == step]))
        rests = np.flatnonzero((f[:-1] == "release") & (invoked[1:] - completed[:-1] >= _LEAST_REST_NS))
        own.setdefault("rest", []).append(_Stretches(completed[rests], invoked[rests + 1]))
    for (client, _), sections in run.sections.groupby(["client", "life"], observed=True, sort=False):
        own = found.setdefault(process_of(str(client)), {})
        sections = sections.sort_values("start_ns", kind="stable")
        began, ended = columns_of(sections, "start_ns", "end_ns")
        own.setdefault("inside", []).append(_Stretches(began, ended))
    return found


def _overlapping(stretches: _Stretches, window: Window) -> int:
    until_ns = _NEVER if window.to_ns is None else window.to_ns
    begun = np.searchsorted(stretches.began, until_ns, side="right")
    over = np.searchsorted(stretches.ended, window.from_ns, side="left")
    return max(0, int(begun - over))


def _is_of(end: ClientEnd, event: FaultEvent) -> bool:
    """Whether this fault killed it."""
    return (
        end.how == "killed"
        and event.began_ns <= end.at_ns <= event.done_ns
        and process_of(end.client) in map(process_of, event.killed_clients)
    )


def _concerned(event: FaultEvent, clients: tuple[str, ...]) -> tuple[str, ...]:
    if event.hit_nodes:
        return clients
    processes = {process_of(client) for client in event.hit_clients}
    return tuple(client for client in clients if client in processes)


def _class(window: Window, ttl_ms: float) -> str:
    name = window.event.fault_class or window.event.nemesis
    if window.to_ns is None:
        return name
    lasted = (window.to_ns - window.from_ns) / 1e6 / ttl_ms
    if lasted < BRIEF_TTLS:
        return f"{name}, brief"
    return f"{name}, long" if lasted >= LONG_TTLS else name
