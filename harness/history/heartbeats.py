"""What heartbeats show: when clients did not run although no fault had stopped them, and the scheduling delay of
processes.

*Gaps.* A gap that a recorded pause explains is left out: it is the same pause. What is left of any other gap, without
the time for which one thread of the client waited for a processor, counts as a pause if it is longer than a heartbeat
may be late. It becomes an unplanned fault, so that no lock is blamed for it. The client of any other gap was kept
waiting.

What such a pause is called is what is known of it. It was a stop only if the kernel said so. If the client's threads,
one after the other, waited for a processor for most of the time by which the beat was late, it was CPU starvation. They
may have waited at the same time, and the client may have been stopped as well: so it is a pause all the same.

*Delay.* A client that a planned fault had stopped is not late: the time of such a fault is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from fencepost.history import STARVATION, Beats, FaultEvent, Gap
from harness.history.fault_windows import FOREVER_NS, longest_windows, merged
from harness.history.groups import grouped

SLACK_NS: Final = 100_000_000
"""The heart beats every 50 ms and may be late by 50 ms: a gap may begin and end so much off its cause."""
_BEAT_NS: Final = 50_000_000

Windows = dict[str, list[tuple[int, int]]]
"""By client, disjoint and in order."""


def outside_stops(gaps: Sequence[tuple[str, Gap]], faults: Sequence[FaultEvent]) -> tuple[list[FaultEvent], Windows]:
    """The unplanned pauses, each as an injection and a healing, and the times in which clients were kept waiting.
    `gaps`: with their clients."""
    pauses, known = list[FaultEvent](), _pauses(faults)
    waits: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for client, gap in sorted(gaps, key=lambda pair: pair[1].from_ns):
        waited_ns = gap.waited_ns if gap.longest_wait_ns is None else gap.longest_wait_ns
        if _unexplained_ns(gap, known[client]) - waited_ns > SLACK_NS:
            pauses += _pause(f"gap-{1 + len(pauses) // 2}", client, gap)
            known[client].append((gap.from_ns - SLACK_NS, gap.to_ns + SLACK_NS))
        else:
            waits[client].append((gap.from_ns, gap.to_ns))
    return pauses, {client: merged(windows, 0, FOREVER_NS) for client, windows in waits.items()}


def _pauses(faults: Iterable[FaultEvent]) -> defaultdict[str, list[tuple[int, int]]]:
    """By client, when faults may have stopped it, or a beat may be late for that."""
    return grouped(
        (client, (began - SLACK_NS, done + SLACK_NS))
        for event, began, done in longest_windows(faults)
        for client in event.paused_clients
    )


def _unexplained_ns(gap: Gap, known: Iterable[tuple[int, int]]) -> int:
    explained = merged(known, gap.from_ns, gap.to_ns)
    return gap.to_ns - gap.from_ns - sum(done - began for began, done in explained)


def _pause(name: str, client: str, gap: Gap) -> list[FaultEvent]:
    how, seen = _in_words(gap)
    injected = FaultEvent(
        event="injected",
        fault=name,
        nemesis="unplanned",
        what=f"{client if gap.pid is None else f'the lock of {client}'} {how}",
        began_ns=gap.from_ns,
        done_ns=gap.from_ns,
        holds=True,
        seen=seen,
        fault_class=STARVATION if _is_starvation(gap) else "",
        unplanned=True,
        paused_clients=(client,),
    )
    return [injected, replace(injected, event="healed", began_ns=gap.to_ns, done_ns=gap.to_ns, seen="over")]


def _in_words(gap: Gap) -> tuple[str, str]:
    """What happened, and how it was seen."""
    if gap.is_stop:
        return "was stopped", "the kernel showed it as stopped"
    if gap.pid is not None:
        return "stood still", "the kernel showed it as frozen, or waiting for a disk"
    if _is_starvation(gap):
        return "was not scheduled", "its heartbeat was starved of CPU"
    return "stood still", "its heartbeat stood still, for longer than CPU starvation explains"


def _is_starvation(gap: Gap) -> bool:
    return gap.pid is None and 2 * gap.waited_ns >= gap.to_ns - gap.from_ns - _BEAT_NS


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
    stops = _pauses(event for event in faults if not event.unplanned)
    for process, _, lines in lives:
        yield _lags_of(process, list(lines), stops[process], start_ns, end_ns)


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
