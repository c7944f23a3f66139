"""For how long a client can have been stopped, or starved of CPU, during its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fencepost.history import task_names
from harness.history.fault_windows import FOREVER_NS, merged
from harness.history.groups import Ints, columns_of, grouped
from harness.history.leases import pause_windows

if TYPE_CHECKING:
    from harness.history.recorded import Recorded


def ran_ns(run: Recorded, client: str, since_ns: int, until_ns: int) -> int:
    """For how much of this time the client was not stopped, nor starved of CPU."""
    one = pd.DataFrame({"client": [client], "invoke_ns": [since_ns], "complete_ns": [until_ns]})
    return until_ns - since_ns - int(stood_still_ns(one, run)[0])


def stood_still_ns(calls: pd.DataFrame, run: Recorded) -> Ints:
    """For each call, how long its client can have been stopped, or starved of CPU, during it."""
    stood = np.zeros(len(calls), np.int64)
    invoke, complete = columns_of(calls, "invoke_ns", "complete_ns")
    pauses = pause_windows(run.faults)
    waits = _waits(run)
    for client in pauses.keys() | run.kept_waiting.keys() | waits.keys():
        own = np.flatnonzero(calls["client"] == client)
        times = invoke[own], complete[own]
        windows = merged([*pauses.get(client, ()), *run.kept_waiting.get(client, ())], 0, FOREVER_NS)
        stood[own] = _overlap(*times, windows)
        if client in waits:
            # The record of longer waits and this one tell of the same waiting.
            paused = _overlap(*times, merged(pauses.get(client, ()), 0, FOREVER_NS))
            stood[own] = np.maximum(stood[own], paused + _waited(*times, waits[client]))
    within: Ints = np.minimum(stood, complete - invoke)
    return within


def _waits(run: Recorded) -> dict[str, Ints]:
    """`Lags.waits` of all lives of each client."""
    tasks = ((task, one.waits) for one in run.lags for task in task_names(one.process, run.config.users_per_client))
    return {task: np.concatenate(rows) for task, rows in grouped(tasks).items()}


def _waited(invoke: Ints, complete: Ints, waits: Ints) -> Ints:
    """For how much of each call its client can have been starved of CPU. A client that is killed takes the record of
    its last second along, so it can have waited for all of a time without a record."""
    waited = complete - invoke
    waits = waits[np.argsort(waits[:, 0])]
    second = np.searchsorted(waits[:, 1], invoke, side="right")
    calls = np.flatnonzero(second < len(waits))
    while len(calls):
        from_ns, until_ns, waited_ns = waits[second[calls]].T
        common = np.minimum(complete[calls], until_ns) - np.maximum(invoke[calls], from_ns)
        met = common > 0
        calls = calls[met]
        waited[calls] -= np.maximum(common - waited_ns, 0)[met]
        second[calls] += 1
        calls = calls[second[calls] < len(waits)]
    return waited


def _overlap(invoke: Ints, complete: Ints, windows: Sequence[tuple[int, int]]) -> Ints:
    total = np.zeros(len(invoke), np.int64)
    for began, done in windows:
        total += np.maximum(np.minimum(complete, done) - np.maximum(invoke, began), 0)
    return total
