"""What the lock did in calm, under faults, and after the heal.

`calm` is load without any fault that can have been in force, `faults` is load with one, `recovery` is what follows
once everything is healed. An operation belongs to the phase in which it was invoked, a section to that in which it
started.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.history.fault_windows import longest_windows, merged
from harness.history.recorded import Recorded
from harness.verdict import Answer

Ints = npt.NDArray[np.int64]

PHASES: Final = ("calm", "faults", "recovery")
_MOST_ERRORS: Final = 5


def check(run: Recorded) -> Answer:
    """Figures by phase: `seconds`, `sections`, `sections_per_s`, `acquire_ok`, `acquire_fail`, `acquire_info`,
    `acquire_ms_p50`, `acquire_ms_p99` (of granted ones), `errors`: the five most frequent of any operation."""
    start_ns, healed_ns, end_ns = _edges(run)
    faulty = merged(((since, until) for _, since, until in longest_windows(run.faults)), start_ns, healed_ns)
    faulty_ns = sum(until - since for since, until in faulty)
    length_ns = {"calm": healed_ns - start_ns - faulty_ns, "faults": faulty_ns, "recovery": end_ns - healed_ns}
    ops = run.ops[["f", "outcome", "invoke_ns", "complete_ns", "error"]]
    ops_phase = _phase(ops["invoke_ns"].to_numpy(np.int64), faulty, healed_ns)
    sections_phase = _phase(run.sections["start_ns"].to_numpy(np.int64), faulty, healed_ns)
    figures: dict[str, object] = {}
    for number, phase in enumerate(PHASES):
        seconds = length_ns[phase] / 1e9
        sections = int((sections_phase == number).sum())
        if seconds > 0 or sections:
            figures[phase] = {
                "seconds": seconds,
                "sections": sections,
                "sections_per_s": sections / seconds if seconds > 0 else None,
                **_acquires(ops[ops_phase == number]),
            }
    return Answer(figures=figures)


def _edges(run: Recorded) -> tuple[int, int, int]:
    """Start, heal and end; for a run that was cut short the last thing recorded stands for what was not reached."""
    timeline = run.timeline
    last = int(run.ops["complete_ns"].max()) if len(run.ops) else timeline.start_ns
    end_ns = max(timeline.start_ns, timeline.stop_ns or last)
    return timeline.start_ns, min(timeline.healed_ns or end_ns, end_ns), end_ns


def _phase(at: Ints, faulty: list[tuple[int, int]], healed_ns: int) -> Ints:
    """The number of the phase at each of the moments. A moment lies in a fault if more of them began than ended."""
    began = np.array([since for since, _ in faulty], np.int64)
    ended = np.array([until for _, until in faulty], np.int64)
    in_fault = np.searchsorted(began, at, "right") > np.searchsorted(ended, at, "left")
    return np.where(at >= healed_ns, 2, np.where(in_fault, 1, 0))


def _acquires(ops: pd.DataFrame) -> dict[str, object]:
    acquires = ops[ops["f"] == "acquire"]
    outcomes = acquires["outcome"].value_counts()
    granted = acquires[acquires["outcome"] == "ok"]
    took_ms = (granted["complete_ns"] - granted["invoke_ns"]).to_numpy(np.int64) / 1e6
    p50, p99 = np.percentile(took_ms, [50, 99]).tolist() if len(took_ms) else (None, None)
    errors = ops["error"].value_counts()
    errors = errors[errors > 0].head(_MOST_ERRORS)
    return {
        "acquire_ok": int(outcomes.get("ok", 0)),
        "acquire_fail": int(outcomes.get("fail", 0)),
        "acquire_info": int(outcomes.get("info", 0)),
        "acquire_ms_p50": p50,
        "acquire_ms_p99": p99,
        "errors": {str(text): int(count) for text, count in errors.items()},
    }
