"""Does the lock come free, soon, and for everybody?

A time without a grant counts against the lock only while some working client surely could reach a majority
(`harness.history.fault_windows.majority_windows`). Nothing here breaks a requirement: they are about safety. But a run
in which nobody acquired anything proves nothing, and is unknown.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from harness.history.fault_windows import last_ends, majority_windows
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

Ints = npt.NDArray[np.int64]

_TTLS_TO_RECOVER: Final = 2
"""A key set as late as the heal is gone one TTL later; with this much time and no grant, something is stuck."""


def check(run: Recorded) -> Answer:
    """Figures:

    `wait_ms`: from the first try to the grant. `longest_gap_ms`, `longest_gap_at_ms`: between grants, with a majority
    in reach, and where it began. `recovery_first_ms`, `recovery_all_ms`: from the heal to the first grant, and until
    every client that still worked had one. `never_acquired`. `jain`: fairness of sections over clients, 1 if all had
    as many. `acquires_longer_than_ttl`. `late_grants`: the validity was surely over when the client learnt of it.
    """
    start: Ints = run.sections["start_ns"].to_numpy(np.int64)
    wait_ms = (start - run.sections["asked_ns"].to_numpy(np.int64)) / 1e6
    by_client = run.sections["client"].value_counts()
    by_client = by_client[by_client > 0]
    clients = run.config.client_names
    shares = np.array([int(by_client.get(client, 0)) for client in clients], np.float64)
    gap_ns, gap_at_ns = _longest_gap(run, start)
    first_ms, all_ms = _recovery(run)
    took_ns = (run.ops["complete_ns"] - run.ops["invoke_ns"])[run.ops["f"] == "acquire"].to_numpy(np.int64)
    figures: dict[str, object] = {
        "wait_ms": _spread(wait_ms),
        "longest_gap_ms": None if gap_ns is None else gap_ns / 1e6,
        "longest_gap_at_ms": None if gap_at_ns is None else (gap_at_ns - run.timeline.start_ns) / 1e6,
        "recovery_first_ms": first_ms,
        "recovery_all_ms": all_ms,
        "never_acquired": [client for client in clients if client not in by_client.index],
        "jain": float(shares.sum() ** 2 / (len(shares) * (shares**2).sum())) if shares.any() else None,
        "acquires_longer_than_ttl": int((took_ns > run.config.ttl_ms * 1_000_000).sum()),
        "late_grants": int((run.sections["deadline_max_ns"].to_numpy(np.int64) < start).sum()),
    }
    unknown = () if len(start) else ("nobody acquired the lock",)
    return Answer(findings=_no_recovery(run, first_ms), unknown=unknown, figures=figures)


def _spread(values: npt.NDArray[np.float64]) -> dict[str, object]:
    if not len(values):
        return {"count": 0, "p50": None, "p90": None, "p99": None, "max": None}
    p50, p90, p99 = np.percentile(values, [50, 90, 99]).tolist()
    return {"count": len(values), "p50": p50, "p90": p90, "p99": p99, "max": float(values.max())}


def _last_ns(run: Recorded) -> int:
    """When the load was over; for a run that was cut short, the last thing that was recorded."""
    if run.timeline.stop_ns is not None:
        return run.timeline.stop_ns
    return int(run.ops["complete_ns"].max()) if len(run.ops) else run.timeline.start_ns


def _longest_gap(run: Recorded, start: Ints) -> tuple[int | None, int | None]:
    """The longest time without a grant within the windows in which a majority was in reach, and when it began."""
    config, begin, end = run.config, run.timeline.start_ns, _last_ns(run)
    longest: tuple[int | None, int | None] = (None, None)
    for since, until in majority_windows(config.client_names, config.node_names, run.faults, run.ends, begin, end):
        inside = start[np.searchsorted(start, since, "left") : np.searchsorted(start, until, "right")]
        moments = np.concatenate([[since], inside, [until]])
        gaps = np.diff(moments)
        at = int(np.argmax(gaps))
        if longest[0] is None or gaps[at] > longest[0]:
            longest = int(gaps[at]), int(moments[at])
    return longest


def _recovery(run: Recorded) -> tuple[float | None, float | None]:
    healed_ns = run.timeline.healed_ns
    if healed_ns is None:
        return None, None
    after = run.sections[run.sections["start_ns"] >= healed_ns]
    if not len(after):
        return None, None
    firsts = after.groupby(after["client"].astype(str))["start_ns"].min()
    gone = {client for client, at_ns in last_ends(run.ends).items() if at_ns < healed_ns}
    gone -= set(run.ops.loc[run.ops["complete_ns"] >= healed_ns, "client"].astype(str))
    working = [client for client in run.config.client_names if client not in gone]
    everyone = all(client in firsts.index for client in working)
    first_ms = float(firsts.min() - healed_ns) / 1e6
    return first_ms, float(firsts.reindex(working).max() - healed_ns) / 1e6 if everyone and working else None


def _no_recovery(run: Recorded, first_ms: float | None) -> tuple[Finding, ...]:
    healed_ns, stop_ns = run.timeline.healed_ns, run.timeline.stop_ns
    if first_ms is not None or healed_ns is None or stop_ns is None:
        return ()
    # Who got in before the heal may have it rightfully for longer, by extending; then it cannot come free meanwhile.
    sections = run.sections
    held: Ints = np.minimum(sections["end_ns"].to_numpy(np.int64), sections["deadline_max_ns"].to_numpy(np.int64))
    free_ns = max(healed_ns, int(held.max(initial=healed_ns)))
    given_ms = (stop_ns - free_ns) / 1e6
    if given_ms < _TTLS_TO_RECOVER * run.config.ttl_ms:
        return ()
    text = (
        f"nobody acquired the lock within {given_ms:.0f} ms after everything was healed"
        f"{' and its last holder was out' if free_ns > healed_ns else ''} (TTL {run.config.ttl_ms} ms)"
    )
    return (Finding("liveness", "no-recovery", "lock", text),)
