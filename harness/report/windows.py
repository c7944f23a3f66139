"""Faults as windows in time: what `nemesis.jsonl` tells in two lines, a picture and a table need as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.checkers.base import Recorded
from harness.history import FaultEvent


@dataclass(frozen=True, slots=True)
class Window:
    """One fault that was injected. It was surely in force from `from_ns` to `to_ns` (CLOCK_MONOTONIC).

    `to_ns`: None where no healing was recorded. `took`: the probe saw it in force. `gone`: the probe saw it healed;
    None where nobody looked. `event`: the line of the injection, with whom it hit.
    """

    event: FaultEvent
    from_ns: int
    to_ns: int | None
    took: bool
    gone: bool | None
    seen_healed: str | None


def windows(events: Iterable[FaultEvent]) -> tuple[Window, ...]:
    """The injected faults in the order of their beginnings. A healing without an injection is left out."""
    heals: dict[str, FaultEvent] = {}
    injections: list[FaultEvent] = []
    for event in events:
        if event.event == "injected":
            injections.append(event)
        else:
            heals[event.fault] = event
    found = []
    for event in sorted(injections, key=lambda e: e.done_ns):
        heal = heals.get(event.fault)
        found.append(
            Window(
                event=event,
                from_ns=event.done_ns,
                to_ns=heal.began_ns if heal else None,
                took=event.holds,
                gone=heal.holds if heal else None,
                seen_healed=heal.seen if heal else None,
            )
        )
    return tuple(found)


def span_ns(run: Recorded) -> tuple[int, int]:
    """The first and the last moment that a picture of this run must show; never empty, also for a crashed run."""
    start = run.timeline.start_ns
    ends = [t for t in (run.timeline.healed_ns, run.timeline.stop_ns, run.timeline.end_ns) if t is not None]
    ends += [event.done_ns for event in run.faults]
    if len(run.ops):
        ends.append(int(run.ops["complete_ns"].max()))
    if len(run.sections):
        ends.append(int(run.sections["end_ns"].max()))
    return start, max(ends, default=start + int(run.config.duration_ms * 1e6))
