"""What `fencepost shrink` says: of each try, of what remained, and why it ended."""

from __future__ import annotations

from typing import Final

from fencepost.text import milliseconds, plural
from harness.replay.violation import Kind
from harness.shrink.search import Found
from harness.shrink.trials import Reason, Tally, Trials, Try
from nemesis.schedule import Planned, Schedule, decode_fault

_ENDED: Final[dict[Reason, str]] = {
    "time": "the time was over",
    "interrupted": "interrupted",
    "broken": "no run could be made any more",
}


def size(schedule: Schedule) -> str:
    """`3 faults in 4.1 s`."""
    return f"{plural(len(schedule.faults), 'fault')} in {milliseconds(schedule.duration_ms)}"


def tried(line: Try, number: int, left: str) -> str:
    """One try. `left`: the time that is left."""
    what = f"{plural(len(line.faults), 'fault')} in {milliseconds(line.load_ms)}"
    kept = "  kept" if line.kept else ""
    return f"[{left:>17}] {number:>3}  {line.step:<28} {what:<19} seen in {Tally(line.seen, line.made)}{kept}"


def not_again(found: Found, trials: Trials, kind: Kind) -> str:
    """Why there is no result."""
    if found.ended is not None:
        over = _ENDED[found.ended]
        more = "; raise --limit" if found.ended == "time" else ""
        return f"{over} before it was known whether {kind} comes again{more}. No schedule was written."
    made = sum(line.made for line in trials.record)
    seen = sum(line.seen for line in trials.record)
    return (
        f"{kind} came again in {seen} of {plural(made, 'play')} of the whole schedule, {trials.needed} of "
        f"{trials.repeats} are needed: nothing to shrink. Rare ones want a larger --repeats, or --needed 1."
    )


def remained(found: Found, before: int, trials: Trials) -> str:
    """The result in words. `before`: how many faults the whole has."""
    schedule = found.schedule
    assert schedule is not None
    took_s = sum(line.took_s for line in trials.record)
    lines = [
        f"{len(schedule.faults)} of {plural(before, 'fault')} remained, after {_tries(len(trials.record))} "
        f"in {milliseconds(1e3 * round(took_s))}:"
    ]
    lines += [f"  {_in_words(planned, schedule.duration_ms)}" for planned in schedule.faults]
    lines.append(
        f"  a load of {milliseconds(schedule.duration_ms)}" + ("" if schedule.faults else ", and no fault at all")
    )
    if found.confirmed is None:
        lines.append("it was not played once more to the end: that it was kept may have been luck")
    else:
        lines.append(f"played once more, it showed it in {found.confirmed}")
    if found.ended is not None:
        lines.append(f"{_ENDED[found.ended]}: this is the best found so far, there may be smaller ones")
    return "\n".join(lines)


def _tries(number: int) -> str:
    return "1 try" if number == 1 else f"{number} tries"


def _in_words(planned: Planned, load_ms: int) -> str:
    """`at 400 ms for 1.3 s: pause a client inside a section (pause f7)`."""
    lasts = f" for {milliseconds(planned.duration_ms)}" if planned.duration_ms else ", healed at once"
    if planned.end_ms >= load_ms:
        lasts = " to the end"
    what = decode_fault(planned).describe()
    return f"at {milliseconds(planned.at_ms)}{lasts}: {what} ({planned.nemesis} {planned.id})"
