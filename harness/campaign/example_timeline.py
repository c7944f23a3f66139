"""One example for the page: the timeline around an overlap or another finding, or that of a whole scripted run, and
what happened as text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fencepost.history import Timeline
from fencepost.text import milliseconds
from harness.campaign.of_a_run import node_outages
from harness.history.capacity import pairs_beyond
from harness.history.fault_windows import windows
from harness.history.recorded import Recorded
from harness.report.timeline import timeline
from harness.verdict import Verdict, ordered

_BEFORE_NS = 400_000_000
_AFTER_NS = 700_000_000
_MOST_SECTIONS = 3_000


def moment_of(run: Recorded) -> dict[str, object] | None:
    """The longest overlap blamed on the lock: `data` for the timeline, `show` (which overlap, from 1), and `text`. None
    if there is none."""
    pairs = pairs_beyond(run.sections, run.permits)
    blamed = pairs.blamed("lock")
    if not len(blamed):
        return None
    start, end = (run.sections[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    certain = np.minimum(end, run.sections["deadline_min_ns"].to_numpy(np.int64))
    until = np.minimum(certain[pairs.earlier[blamed]], certain[pairs.later[blamed]])
    chosen = int(blamed[np.argmax(until - start[pairs.later[blamed]])])
    first, second = int(pairs.earlier[chosen]), int(pairs.later[chosen])
    before = [event for event in node_outages(run.faults) if event.began_ns <= start[second]]
    # A key lives for one TTL, so an outage that is older than two has nothing to do with it.
    outage = before[-1] if before and start[second] - before[-1].began_ns < 2e6 * run.config.ttl_ms else None
    begin_ns = int(min(start[first], outage.began_ns if outage else start[second])) - _BEFORE_NS
    end_ns = int(max(end[first], end[second])) + _AFTER_NS
    data = _excerpt(run, begin_ns, end_ns)
    at_us = (int(start[second]) - begin_ns) // 1_000
    overlaps = data["overlaps"]
    show = next((n for n, o in enumerate(overlaps, 1) if o[2] == at_us), 0) if isinstance(overlaps, list) else 0
    origin = run.timeline.start_ns

    a, b = run.sections.iloc[first], run.sections.iloc[second]
    steps = [
        (int(a.start_ns), f"{a.client} was granted {a.key}"),
        (int(b.start_ns), f"{b.client} was granted {b.key} too"),
    ]
    if outage:
        steps.append((outage.began_ns, outage.what))
    both_ms = float(min(a.end_ns, b.end_ns) - b.start_ns) / 1e6
    told = "; ".join(f"at {(ns - origin) / 1e9:.3f} s {what}" for ns, what in sorted(steps))
    told += f". For {milliseconds(both_ms)} both clients were inside, each with a valid lease."
    return {"data": data, "show": show, "text": told[0].upper() + told[1:], "from_s": (begin_ns - origin) / 1e9}


def other_moment_of(run: Recorded, verdict: Verdict) -> dict[str, object] | None:
    """The same of another finding blamed on the lock, one that violates what was required before others: the time
    around its first example, and `finding`, its kind. None if there is none."""
    told = [(each, at_ms) for each in ordered(verdict) if each.blame == "lock" and (at_ms := each.at_ms) is not None]
    if not told:
        return None
    finding, at_ms = told[0]
    at_ns = run.timeline.start_ns + round(at_ms * 1e6)
    begin_ns = at_ns - _BEFORE_NS
    return {
        "data": _excerpt(run, begin_ns, at_ns + _AFTER_NS),
        "show": 0,
        "text": f"At {at_ms / 1e3:.3f} s: {finding.text}.",
        "from_s": run.at_ms(begin_ns) / 1e3,
        "finding": finding.kind,
    }


def _excerpt(run: Recorded, begin_ns: int, end_ns: int) -> dict[str, object]:
    """The timeline of this time."""
    start, end = (run.sections[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    excerpt = replace(
        run,
        timeline=Timeline(start_ns=begin_ns, stop_ns=None, end_ns=end_ns),
        ops=run.ops.iloc[0:0],
        sections=run.sections[(end >= begin_ns) & (start <= end_ns)].head(_MOST_SECTIONS),
        faults=tuple(event for event in run.faults if event.done_ns <= end_ns),
    )
    shown = tuple(w for w in windows(excerpt.faults) if w.to_ns is None or w.to_ns >= begin_ns)
    return timeline(replace(excerpt, faults=()), shown)


def whole_run(run: Recorded, claim: str) -> dict[str, object]:
    """All of a scripted run, which is short; the text is what it tests."""
    data = timeline(replace(run, faults=()), windows(run.faults))
    return {"data": data, "show": 0, "text": " ".join(claim.split()), "from_s": 0.0}
