"""The stretch of time that a picture of a run shows."""

from __future__ import annotations

from harness.history.recorded import Recorded


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
