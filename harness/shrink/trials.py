"""Does this schedule show the violation? The outcome of a run depends on chance, so a schedule is run more than once.

A schedule *shows* the violation when `needed` of at most `repeats` runs do. The runs stop as soon as that is decided: a
schedule that always shows it costs `needed` runs, one that never does costs `repeats - needed + 1`. The answer is
remembered by the schedule's content.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import msgspec

from harness.replay.violation import Moment
from nemesis.schedule import Schedule

Reason = Literal["time", "interrupted", "broken"]


class EnoughError(Exception):
    """The search has to end: the time is up, the user asked to stop, or runs no longer succeed."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class TrialOutcome(NamedTuple):
    """The outcome of one play: whether it showed the violation, and when."""

    seen: bool
    moments: tuple[Moment, ...] = ()


Play = Callable[[Schedule, str], TrialOutcome]
"""Runs a schedule once; the text says which attempt it is. Raises EnoughError if the user asked to stop, and
FencepostError if it cannot be run."""


class Tally(msgspec.Struct, frozen=True):
    """`seen` of `made` plays showed the violation."""

    seen: int
    made: int

    def __str__(self) -> str:
        return f"{self.seen} of {self.made}"


class Try(msgspec.Struct, frozen=True):
    """A line of the record: what was tried, in which step, and the outcome."""

    step: str
    faults: tuple[str, ...]
    load_ms: int
    seen: int
    made: int
    kept: bool
    took_s: float


@dataclass(slots=True)
class Trials:
    """Runs schedules until each is decided. `kept`: the schedules that showed it, in order; `best`: the last of them.

    The whole schedule comes first. `ends_at`: when everything must have finished, by `clock` in seconds. No play starts
    that would not finish in time, and enough time is reserved to run the best once more. `told`: is called with every
    decided try.
    """

    play: Play
    needed: int
    repeats: int
    ends_at: float = float("inf")
    clock: Callable[[], float] = time.monotonic
    told: Callable[[Try], None] = lambda _: None
    record: list[Try] = field(default_factory=list)
    kept: list[Schedule] = field(default_factory=list)
    moments: tuple[Moment, ...] = ()
    """When the violation happened in the last plays that showed it."""
    step: str = ""
    """A description of what is being tried."""
    _known: dict[bytes, bool] = field(default_factory=dict)
    _overhead_s: float = 5.0

    @property
    def best(self) -> Schedule | None:
        return self.kept[-1] if self.kept else None

    def shows(self, schedule: Schedule) -> bool:
        """Whether the schedule shows the violation. Raises EnoughError."""
        key = schedule.to_bytes()
        if key not in self._known:
            spare_s = self.repeats * self._expected_s(self.kept[-1]) if len(self.kept) > 1 else 0.0
            self._known[key] = self._decide(schedule, spare_s, keep=True)
        return self._known[key]

    def confirm(self, schedule: Schedule) -> Tally:
        """Run it again, ignoring any remembered answer, until it is decided. Raises EnoughError."""
        self._decide(schedule, 0.0, keep=False)
        return Tally(self.record[-1].seen, self.record[-1].made)

    def _decide(self, schedule: Schedule, spare_s: float, *, keep: bool) -> bool:
        seen = made = 0
        moments: tuple[Moment, ...] = ()
        began = self.clock()
        while seen < self.needed and made - seen <= self.repeats - self.needed:
            if self.clock() + self._expected_s(schedule) + spare_s > self.ends_at:
                raise EnoughError("time")
            played = self._play(schedule, f"{len(self.record) + 1}", Tally(seen, made))
            made += 1
            if played.seen:
                seen += 1
                moments += played.moments
        shows = seen >= self.needed
        if shows:
            self.moments = moments
        if shows and keep:
            self.kept.append(schedule)
        ids = tuple(planned.id for planned in schedule.faults)
        line = Try(self.step, ids, schedule.duration_ms, seen, made, shows, round(self.clock() - began, 1))
        self.record.append(line)
        self.told(line)
        return shows

    def _play(self, schedule: Schedule, number: str, so_far: Tally) -> TrialOutcome:
        began = self.clock()
        played = self.play(schedule, f"attempt {number}, {self.step}" + (f", {so_far} so far" if so_far.made else ""))
        # The slowest recent run, because a machine's speed varies.
        overhead_s = self.clock() - began - schedule.duration_ms / 1e3
        self._overhead_s = max(overhead_s, 0.8 * self._overhead_s if self.record else 0.0)
        return played

    def _expected_s(self, schedule: Schedule) -> float:
        return schedule.duration_ms / 1e3 + self._overhead_s
