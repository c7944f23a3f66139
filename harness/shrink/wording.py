"""What `fencepost shrink` prints: each attempt, the result, and why the search ended."""

from __future__ import annotations

from typing import Final

from fencepost.text import milliseconds, plural
from harness.replay.violation import Kind
from harness.shrink.search import Smallest
from harness.shrink.trials import Reason, Tally, Trials, Try
from nemesis.schedule import Planned, Schedule, decode_fault

_ENDED: Final[dict[Reason, str]] = {
    "time": "the time was up",
    "interrupted": "interrupted",
    "broken": "runs no longer succeeded",
}


def size(schedule: Schedule) -> str:
    """`3 faults in 4.1 s`."""
    return f"{plural(len(schedule.faults), 'fault')} in {milliseconds(schedule.duration_ms)}"


def tried(line: Try, number: int, left: str) -> str:
    """One attempt. `left`: the remaining time."""
    what = f"{plural(len(line.faults), 'fault')} in {milliseconds(line.load_ms)}"
    kept = "  kept" if line.kept else ""
    return f"[{left:>17}] {number:>3}  {line.step:<28} {what:<19} reproduced in {Tally(line.seen, line.made)}{kept}"


def not_again(found: Smallest, trials: Trials, kind: Kind) -> str:
    """Why there is no result."""
    if found.ended is not None:
        over = _ENDED[found.ended]
        more = "; raise --limit" if found.ended == "time" else ""
        return f"{over} before the search knew whether {kind} comes again{more}. No schedule was written."
    made = sum(line.made for line in trials.record)
    seen = sum(line.seen for line in trials.record)
    return (
        f"{kind} came again in {seen} of {plural(made, 'run')} of the whole schedule; {trials.needed} of "
        f"{trials.repeats} are needed: nothing to shrink. For a rare violation use a larger --repeats, or --needed 1."
    )


def remained(found: Smallest, before: int, trials: Trials) -> str:
    """The result as text. `before`: how many faults the whole schedule has."""
    schedule = found.schedule
    assert schedule is not None
    took_s = sum(line.took_s for line in trials.record)
    lines = [
        f"{len(schedule.faults)} of {plural(before, 'fault')} remained, after {plural(len(trials.record), 'attempt')} "
        f"in {milliseconds(1e3 * round(took_s))}:"
    ]
    lines += [f"  {_in_words(planned, schedule.duration_ms)}" for planned in schedule.faults]
    lines.append(
        f"  a load of {milliseconds(schedule.duration_ms)}" + ("" if schedule.faults else ", and no fault at all")
    )
    if found.confirmed is None:
        lines.append("not confirmed by further runs: it may have been kept by luck")
    else:
        lines.append(f"reproduced in {found.confirmed} confirmation runs")
    if found.ended is not None:
        lines.append(f"{_ENDED[found.ended]}: this is the best so far, there may be smaller ones")
    return "\n".join(lines)


def _in_words(planned: Planned, load_ms: int) -> str:
    """`at 400 ms for 1.3 s: pause a client inside a section (pause f7)`."""
    lasts = f" for {milliseconds(planned.duration_ms)}" if planned.duration_ms else ", healed immediately"
    if planned.end_ms >= load_ms:
        lasts = " to the end"
    what = decode_fault(planned).describe()
    return f"at {milliseconds(planned.at_ms)}{lasts}: {what} ({planned.nemesis} {planned.id})"
