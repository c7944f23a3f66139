"""The scheduling delay of processes during a run, from their heartbeats.

A client that a planned fault had stopped is not late: the time of such a fault is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fencepost.history import Beats, FaultEvent
from harness.history.fault_windows import longest_windows

_SLACK_NS: Final = 100_000_000
"""A beat may be due so long before a fault is seen to be over, or to have begun."""


@dataclass(frozen=True, slots=True)
class Lags:
    """Of one life of a process. `late_ms`: of each beat within the run that no fault held up. `waited_ns`: for how much
    of `over_ns` the thread waited for a processor that waited longest, second by second; `stolen_ns`: for how much of
    it the processors were given to others. Neither is more than `over_ns`. `waits`: a row for about each second: from,
    until, and how long all threads waited in it, added up."""

    process: str
    late_ms: npt.NDArray[np.float64]
    over_ns: int
    waited_ns: int
    stolen_ns: int
    waits: npt.NDArray[np.int64]


def lags(
    lives: Iterable[tuple[str, int, Iterable[Beats]]], faults: Sequence[FaultEvent], start_ns: int, end_ns: int
) -> Iterator[Lags]:
    """Of each life, as far as it lies between start and end."""
    stops = [
        (client, began - _SLACK_NS, done + _SLACK_NS)
        for event, began, done in longest_windows(event for event in faults if not event.unplanned)
        for client in event.paused_clients
    ]
    for process, _, lines in lives:
        own = [(began, done) for client, began, done in stops if client == process]
        yield _lags_of(process, list(lines), own, start_ns, end_ns)


def _lags_of(
    process: str, lines: Sequence[Beats], stops: Sequence[tuple[int, int]], start_ns: int, end_ns: int
) -> Lags:
    late = []
    within = [line for line in lines if start_ns <= line.from_ns and _until_ns(line) <= end_ns]
    for line in lines:
        after_ns = np.array(line.after_us, np.int64) * 1_000
        at_ns = line.from_ns + np.cumsum(after_ns)
        due_ns = at_ns - after_ns + line.every_us * 1_000
        counts = (due_ns >= start_ns) & (at_ns <= end_ns)
        for began, done in stops:
            counts &= (at_ns < began) | (due_ns > done)
        late.append(np.maximum(at_ns - due_ns, 0)[counts] / 1e6)
    return Lags(
        process=process,
        late_ms=np.concatenate(late) if late else np.zeros(0),
        over_ns=sum(map(_length_ns, within)),
        waited_ns=sum(min(_longest_wait_ns(line), _length_ns(line)) for line in within),
        stolen_ns=sum(min(line.stolen_ns, _length_ns(line)) for line in within),
        waits=np.array([(line.from_ns, _until_ns(line), line.waited_ns) for line in lines], np.int64).reshape(-1, 3),
    )


def _until_ns(line: Beats) -> int:
    return line.from_ns + _length_ns(line)


def _length_ns(line: Beats) -> int:
    return sum(line.after_us) * 1_000


def _longest_wait_ns(line: Beats) -> int:
    """Of an older record, which has the sum of all threads only: at most."""
    return line.waited_ns if line.longest_wait_ns is None else line.longest_wait_ns
