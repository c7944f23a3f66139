"""A client's heartbeat: a second thread that notices when the process did not run, whatever stopped it.

A stopped process (SIGSTOP, a frozen cgroup, a paused virtual machine) takes its timestamps late. The judge must know
that, or it would blame the lock for it. The nemesis's own stops are on record. All others show here: a beat that comes
late says that the process stood still since the beat before. Each such *gap* is recorded in a log of its own, before
the next operation is, so that no operation is on record without the gap that made it late.

A process that wants to run and gets no processor is late too, and the kernel tells the two apart: it counts the time
for which a thread waited (`workloads.waiting`). Waiting often makes a call as slow as waiting for long, so times in
which the process was kept waiting for much of each beat are recorded as gaps too, all of it waiting.

The program of a foreign lock is a process of its own and may be stopped alone. It has no heartbeat, and a late beat of
the client says nothing about it. So a gap of that process is recorded only on the kernel's evidence that it stood still
(`workloads.other_process`), which is looked at with every beat. It was kept waiting for as long as the thread of it
that waited longest: most of its threads, such as those of a compiler, work beside the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic_ns, sleep
from types import TracebackType
from typing import Final, Self

from fencepost.history import Gap
from workloads.beat_log import BEAT_S, BeatLog
from workloads.other_process import OtherProcess
from workloads.recorder import Recorder
from workloads.waiting import KeptWaiting, ThreadWaits

MARGIN_NS: Final = 50_000_000
"""A beat may be late by this much and is no gap: timers are late, and threads wait for the interpreter."""
_LATE_NS: Final = int(BEAT_S * 1e9) + MARGIN_NS


class Heartbeat:
    """A context manager. `log`: where gaps are recorded; the file is made when there is one. `beats`: where the beats
    are. `beaten`: called with the time of every beat."""

    def __init__(self, log: Path, beats: Path, beaten: Callable[[int], None]) -> None:
        self._log = log
        self._beats = beats
        self._record: Recorder | None = None
        self._beaten = beaten
        self._others = list[OtherProcess]()
        self._own = ThreadWaits()
        self._of_others = dict[str, ThreadWaits]()
        self._longest_of_others_ns = dict[str, int]()
        self._kept = KeptWaiting(self._write)
        self._is_over = False
        self._another_stands = False
        self._recording = threading.Lock()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._last_ns = monotonic_ns()

    def __enter__(self) -> Self:
        # What the client did before is no gap: until now it was getting ready.
        self._last_ns = monotonic_ns()
        self._look_at_waits()
        for other in self._others:
            other.runs(self._last_ns)
        self._beaten(self._last_ns)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over = True
        self._thread.join()
        self._kept.end(self._last_ns)
        self._close_others()
        if self._record is not None:
            self._record.close()

    def minds(self, others: Sequence[int]) -> None:
        """From now on the lock runs in these processes, besides this one."""
        with self._recording:
            self._close_others()
            self._others = [OtherProcess(pid, _LATE_NS) for pid in others]
            self._of_others = {str(pid): ThreadWaits(pid) for pid in others}
            self._longest_of_others_ns |= dict.fromkeys(self._of_others, 0)

    def check(self, now_ns: int) -> None:
        """Record the gap that this moment reveals, if it does. Called before an operation is recorded, in case its
        client ran again before the heartbeat did. Raises BrokenEnvironmentError when the disk is full."""
        if now_ns - self._last_ns > _LATE_NS or self._another_stands:
            with self._recording:
                self._note(now_ns)

    def _beat(self) -> None:
        with closing(BeatLog(self._beats)) as log:
            log.begin(self._last_ns, self._waits_so_far_ns())
            while not self._is_over:
                sleep(BEAT_S)
                now_ns = monotonic_ns()
                with self._recording:
                    self._note(now_ns)
                    waits = self._waits_so_far_ns()
                self._beaten(now_ns)
                log.beat(now_ns, waits)

    def _note(self, now_ns: int) -> None:
        """Only what is on record counts as known: a thread that sees the new time need not record the gap again. One
        that had looked at its clock before another one noted a later time has nothing to tell."""
        if now_ns < self._last_ns:
            return
        own_ns, waited_ns = self._look_at_waits()
        is_late = now_ns - self._last_ns > _LATE_NS
        if not is_late:
            self._kept.beat(self._last_ns, now_ns, waited_ns)
        else:
            self._kept.end(self._last_ns)
            self._write(Gap(self._last_ns, now_ns, sum(own_ns), longest_wait_ns=max(own_ns, default=0)))
        self._last_ns = now_ns
        for gap in [other.look(now_ns) for other in self._others]:
            if gap is not None:
                self._write(gap)
        self._another_stands = any(other.stands for other in self._others)

    def _look_at_waits(self) -> tuple[list[int], int]:
        """For how long each thread of this process waited since the last look; for how long they and the processes of
        the lock did, added up."""
        own_ns = self._own.look()
        longest_ns = {pid: max(waits.look(), default=0) for pid, waits in self._of_others.items()}
        for pid, waited_ns in longest_ns.items():
            self._longest_of_others_ns[pid] += waited_ns
        return own_ns, sum(own_ns) + sum(longest_ns.values())

    def _waits_so_far_ns(self) -> dict[str, int]:
        """By thread, and by process of the lock."""
        return {**self._own.so_far_ns, **self._longest_of_others_ns}

    def _close_others(self) -> None:
        for other in self._others:
            other.close()

    def _write(self, gap: Gap) -> None:
        if self._record is None:
            self._record = Recorder(self._log)
        self._record(gap)
